"""What time decides: not before, and not after."""

from datetime import UTC, datetime, timedelta

from tests.acceptance.client import Api
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import fault


async def test_a_scheduled_job_starts_at_its_time(api: Api) -> None:
    wanted = (datetime.now(UTC) + timedelta(seconds=1.5)).replace(microsecond=0)
    submitted = await api.submit("echo", {"x": [[1.0]]}, run_at=wanted.isoformat())
    assert submitted.run_at == wanted
    job = await api.wait(submitted.id)
    assert job.status == "succeeded"
    assert job.started_at is not None
    assert wanted <= job.started_at < wanted + timedelta(seconds=5)


async def test_a_job_that_waited_too_long_expires_and_tells_so(api: Api, receiver: Receiver) -> None:
    inbox = receiver.inbox()
    # The model runs one request at a time and is given two: what comes third has to wait.
    busy = [await api.submit("faulty", fault("hang", 1500)) for _ in range(2)]
    for job in busy:
        await api.wait(job.id, "processing")
    submitted = await api.submit("faulty", fault("ok"), expires_in=1, webhook={"url": inbox.url})
    assert submitted.expires_at == submitted.created_at + timedelta(seconds=1)
    assert (await api.get(submitted.id)).queue_position == 1

    job = await api.wait(submitted.id)
    assert (job.status, job.attempt, job.started_at, job.outputs) == ("expired", 0, None, None)
    (delivery,) = await inbox.wait()
    event = delivery.verify(await api.callback_secret())
    assert (event.type, event.data.id, event.data.status) == ("job.expired", job.id, "expired")
    assert [(await api.wait(job.id)).status for job in busy] == ["succeeded", "succeeded"]
