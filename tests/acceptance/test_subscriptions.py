"""Who is told of what."""

from contextlib import AsyncExitStack

from tests.acceptance.client import Api
from tests.acceptance.receiver import Receiver
from tests.acceptance.samples import fault

ECHO = {"x": [[1.0]]}
ENDS = ["job.succeeded", "job.failed"]


async def test_every_receiver_is_told_under_its_own_secret(api: Api, receiver: Receiver) -> None:
    callback, first, second = (receiver.inbox() for _ in range(3))
    async with (
        api.subscribed(first.url, events=ENDS) as one,
        api.subscribed(second.url, events=["job.succeeded"]) as two,
    ):
        job = await api.submit("echo", ECHO, webhook={"url": callback.url})
        secrets = [await api.callback_secret(), one.secret, two.secret]
        deliveries = [(await inbox.wait())[0] for inbox in (callback, first, second)]
        events = [delivery.verify(secret or "") for delivery, secret in zip(deliveries, secrets, strict=True)]
        assert len(set(secrets)) == 3
        assert len({delivery.id for delivery in deliveries}) == 3
        assert {(event.type, event.data.id) for event in events} == {("job.succeeded", job.id)}
        assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"


async def test_a_subscription_hears_only_of_its_models(api: Api, receiver: Receiver) -> None:
    every, some = receiver.inbox(), receiver.inbox()
    async with (
        api.subscribed(every.url, events=ENDS),
        api.subscribed(some.url, events=ENDS, models=["tokens"]) as narrow,
    ):
        other = await api.run("echo", ECHO)
        await api.wait_for_webhooks(other.id)
        wanted = await api.run("tokens", {"text": ["hear me"]})
        (delivery,) = await some.wait()  # had the other job's been sent, it would have come before
        assert delivery.verify(narrow.secret or "").data.id == wanted.id
        assert len(await every.wait(2)) == 2


async def test_a_subscription_hears_only_of_its_events(api: Api, receiver: Receiver) -> None:
    failures, starts = receiver.inbox(), receiver.inbox()
    async with (
        api.subscribed(failures.url, events=["job.failed"]) as failed,
        api.subscribed(starts.url, events=["job.started"]) as started,
    ):
        good = await api.run("echo", ECHO)
        await starts.wait(1)
        bad = await api.run("faulty", fault("invalid"))
        (delivery,) = await failures.wait()
        assert delivery.verify(failed.secret or "").data.id == bad.id
        heard = [delivery.verify(started.secret or "") for delivery in await starts.wait(2)]
        assert [(event.type, event.data.id) for event in heard] == [("job.started", good.id), ("job.started", bad.id)]


async def test_patterns_stand_for_events(api: Api, receiver: Receiver) -> None:
    inboxes = {pattern: receiver.inbox() for pattern in ("job.*", "*.succeeded", "*", "*.*", "delivery.*")}
    async with AsyncExitStack() as stack:
        secrets = {
            pattern: (await stack.enter_async_context(api.subscribed(inbox.url, events=[pattern]))).secret or ""
            for pattern, inbox in inboxes.items()
        }
        job = await api.run("echo", ECHO)
        assert (await api.wait_for_webhooks(job.id)).webhook_status == "succeeded"
        heard = {
            pattern: {delivery.verify(secrets[pattern]).type for delivery in inbox.deliveries}
            for pattern, inbox in inboxes.items()
        }
    both = {"job.started", "job.succeeded"}
    assert heard == {"job.*": both, "*": both, "*.*": both, "*.succeeded": {"job.succeeded"}, "delivery.*": set()}


async def test_a_deleted_subscription_hears_no_more(api: Api, receiver: Receiver) -> None:
    staying, leaving = receiver.inbox(), receiver.inbox()
    async with api.subscribed(staying.url, events=ENDS):
        async with api.subscribed(leaving.url, events=ENDS) as gone:
            first = await api.run("echo", ECHO)
            await leaving.wait()
            assert (await api.wait_for_webhooks(first.id)).webhook_status == "succeeded"
        second = await api.run("echo", ECHO)
        await staying.wait(2)
        assert (await api.wait_for_webhooks(second.id)).webhook_status == "succeeded"
        assert len(leaving.deliveries) == 1
        assert (await api.http.get(f"/v1/webhooks/{gone.id}")).status_code == 404
