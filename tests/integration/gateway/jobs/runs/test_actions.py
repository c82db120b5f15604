"""What a client does to a run reaches its steps."""

from datetime import UTC, datetime, timedelta

import pytest

from common import ids
from common.job_states import Status
from common.jobs.run import find_due_runs
from services.gateway.files.quota import Quota
from services.gateway.files.store import FileStore
from services.gateway.http.problems import Problem
from tests.integration.files import add_file
from tests.integration.gateway.jobs.runs.client import Client
from tests.integration.jobs import TRACEPARENT, claim

QUOTA = Quota(100, 10_000)


async def test_a_run_for_later_waits_and_can_be_canceled(client: Client) -> None:
    submitted = await client.submit(run_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    run = submitted.row.id
    assert await client.runs.steps(run) == []
    assert (await client.find(run)).status is Status.QUEUED
    assert (await client.world.canceler.cancel(client.tenant, run)).status is Status.CANCELED
    assert (await client.find(run)).status is Status.CANCELED


async def test_a_canceled_run_cancels_its_steps(client: Client) -> None:
    run = (await client.submit()).row.id
    await client.runs.infer(run, "first")
    running = await claim(client.database, (await client.list_steps(run, step="each"))[0])
    row = await client.world.canceler.cancel(client.tenant, run)
    assert (row.status, row.finished_at is not None) == (Status.CANCELED, True)
    assert [status for _, _, status in await client.runs.steps(run)] == [
        "canceling",
        "canceled",
        "canceled",
        "succeeded",
    ]
    with pytest.raises(Problem, match="the job is canceled"):
        await client.world.canceler.cancel(client.tenant, run)
    with pytest.raises(Problem, match="has not ended yet"):
        await client.world.eraser.erase(client.tenant, run)
    assert await client.world.retry(run) == set()
    await client.world.recorder.cancel(running, running.time_after(1.0), TRACEPARENT)
    assert await client.world.retry(run) == {run}
    await client.runs.carry_due()
    await client.end(run)
    assert (await client.find(run)).status is Status.SUCCEEDED


async def test_webhooks_are_told_when_a_run_begins_and_when_it_goes_on(client: Client) -> None:
    webhook = {"url": "https://example.com/hook", "events": ["job.started"]}
    run, silent = (await client.submit(webhook=webhook)).row.id, (await client.submit()).row.id
    for each in (run, silent):
        await client.fail(each)
        await client.world.retry(each)
    events = await client.database.fetch(
        "SELECT job_id, callback_url, sequence FROM events WHERE type = 'job.started' ORDER BY sequence"
    )
    assert {each["job_id"] for each in events} == {run}
    assert [each["callback_url"] for each in events] == [webhook["url"]] * 2
    assert len({each["sequence"] for each in events}) == 2


async def test_a_retry_keeps_what_succeeded(client: Client) -> None:
    run = (await client.submit()).row.id
    await client.fail(run)
    assert (await client.find(run)).error_code == "step_failed"
    before = await client.list_steps(run)
    assert await client.world.replay([run]) == {run}
    assert [status for _, _, status in await client.runs.steps(run)] == ["succeeded", "queued", "queued", "succeeded"]
    assert await client.list_steps(run) == before
    await client.runs.carry_due()
    await client.end(run)
    row = await client.find(run)
    assert (row.status, row.error_code) == (Status.SUCCEEDED, None)
    assert row.inference_ms == 3.0  # usage has counted the jobs before


async def test_a_retry_of_a_run_that_may_need_the_object_store_is_left_to_the_sweep(client: Client) -> None:
    """The gateway begins it, and only the sweep and the dispatchers read and write files."""
    run = (await client.submit()).row.id
    await client.world.canceler.cancel(client.tenant, run)
    assert await client.world.retry(run) == {run}
    assert (await client.find(run)).status is Status.PROCESSING
    assert await find_due_runs(client.database, 10) == [run]
    await client.runs.infer(run, "first")
    assert await client.list_steps(run, step="each") == []
    await client.runs.carry_due()
    assert len(await client.list_steps(run, step="each")) == 3
    await client.end(run)
    assert (await client.find(run)).status is Status.SUCCEEDED


async def test_calls_on_the_job_of_a_step_name_its_run(client: Client) -> None:
    run = (await client.submit()).row.id
    (job,) = await client.list_steps(run)
    shown = ids.encode(ids.Kind.JOB, run)
    for call in (client.world.canceler.cancel, client.world.eraser.erase):
        with pytest.raises(Problem, match=f"instead: {shown}") as refused:
            await call(client.tenant, job)
        assert refused.value.status == 409
    retried = await client.world.retrier.retry(client.key, [job], [*Status], None)
    assert (retried.wake_ups, retried.refused[job].code) == ({}, "step")


async def test_another_model_cannot_replace_a_pipeline(client: Client) -> None:
    run = (await client.submit()).row.id
    await client.fail(run)
    retried = await client.world.retrier.retry(client.key, [run], [Status.FAILED], "echo")
    assert (retried.wake_ups, retried.refused[run].code) == ({}, "inputs_refused")


async def test_an_erased_run_leaves_nothing_of_its_steps(client: Client) -> None:
    run = (await client.submit()).row.id
    await client.end(run)
    assert await client.world.eraser.erase(client.tenant, run)
    query = "SELECT tensors, outputs, raw_outputs, erased_at FROM jobs WHERE id = $1 OR parent = $1"
    rows = [tuple(record) for record in await client.database.fetch(query, run)]
    assert len(rows) == 6
    assert {row[:3] for row in rows} == {(b"", None, None)}
    assert None not in {row[3] for row in rows}
    assert await client.world.retry(run) == set()


async def test_a_file_stays_while_a_run_may_read_it(client: Client) -> None:
    """Also after the steps that have begun, which read none."""
    file = await add_file(client.database, client.tenant)
    run = (await client.submit()).row.id
    await client.database.fetch("UPDATE live_runs SET input_files = ARRAY[$1::uuid] WHERE id = $2", file, run)
    files = FileStore(client.database, QUOTA)
    assert not await files.delete(file, client.tenant)
    await client.end(run)
    assert await files.delete(file, client.tenant)
