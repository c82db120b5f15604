"""Where runs and their steps are shown."""

from datetime import UTC, datetime, timedelta

import msgspec

from common import ids
from common.job_states import Status
from common.pipelines.run_state import StepStatus
from common.runs.pipelines import Pipelines
from common.views.job_parts import WaitingFor
from services.gateway.jobs.queue_limits.store import QueueLimitStore
from services.gateway.jobs.runs.views import RunViewer
from services.gateway.jobs.schemas import DeadFilter
from services.gateway.jobs.store import StepPlace
from services.gateway.jobs.wait_reasons import WaitExplainer
from services.gateway.models.store import ModelStore
from services.gateway.models.workloads import WorkloadReader
from services.gateway.reports.stats.store import StatsStore
from tests.integration.gateway.jobs.runs.client import Client
from tests.integration.jobs import submit


async def test_lists_have_runs_and_only_on_request_their_steps(client: Client) -> None:
    run, job = (await client.submit()).row.id, await submit(client.database, client.tenant)
    assert await client.list_jobs() == [job, run]
    assert await client.list_jobs(status=Status.PROCESSING) == [run]
    assert await client.list_jobs(model="chain") == [run]
    assert await client.list_jobs(model="a") == []
    await client.fail(run)
    assert await client.list_jobs() == [job, run]
    assert await client.list_jobs(status=Status.FAILED) == [run]
    dead = await client.store.list_dead_letters(client.tenant, None, DeadFilter(), 10)
    assert [row.id for row in dead] == [run]
    steps = await client.list_steps(run)
    assert len(steps) == 4
    assert await client.list_steps(run, StepPlace("each", 0), 2) == steps[1:3]
    assert await client.list_steps(run, step="first") == steps[3:]
    assert await client.list_steps(run, status=Status.FAILED) == steps[1:2]
    assert await client.list_steps(run, model="a") == steps[3:]


async def test_a_run_shows_its_steps(client: Client) -> None:
    viewer = RunViewer(client.database, Pipelines())
    run = (await client.submit()).row.id
    await client.fail(run)
    steps = await viewer.view_steps(await client.find(run))
    assert isinstance(steps, dict)
    assert {name: (step.status, step.total, step.done) for name, step in steps.items()} == {
        "first": (StepStatus.SUCCEEDED, 1, 1),
        "each": (StepStatus.FAILED, 3, 1),
        "last": (StepStatus.CANCELED, None, 0),
    }
    (first,) = await client.list_steps(run, step="first")
    assert [step.job for step in steps.values()] == [ids.encode(ids.Kind.JOB, first), None, None]
    job = await client.find(first)
    assert (job.parent, job.step, await viewer.view_steps(job)) == (run, "first", msgspec.UNSET)


async def test_the_stream_of_a_run_has_its_steps_in_order(client: Client) -> None:
    run = (await client.submit()).row.id
    await client.fail(run)
    await client.world.retry(run)
    await client.runs.carry_due()
    await client.end(run)
    rows = await client.read_history(run)
    assert len({row.position for row in rows}) == len(rows)
    types = [row.type for row in rows]
    assert types[:4] == ["job.queued", "job.started", "step.started", "step.succeeded"]
    assert (types.count("step.failed"), types.count("job.failed"), types[-1]) == (1, 1, "job.succeeded")


async def test_numbers_have_runs_and_not_their_steps(client: Client) -> None:
    run = (await client.submit()).row.id
    stats = StatsStore(client.database)
    assert await stats.count_waiting(client.tenant, 100) == {}
    running = await stats.count_running(client.tenant)
    assert {queue.model: count for queue, count in running.items()} == {"chain": 1}
    minutes = await stats.count_by_minute(client.tenant, 100)
    assert (sum(each.running for each in minutes), sum(each.waiting for each in minutes)) == (1, 0)
    levels = await QueueLimitStore(client.database).count_queues([client.tenant], 100, 100)
    assert levels[client.tenant].jobs == 2  # the run, and the job of its first step
    await client.end(run)
    ended = await stats.measure_ended(client.tenant)
    assert {queue.model: measured.jobs for (queue, _), measured in ended.items()} == {"chain": 1}


async def test_a_queued_run_waits_for_its_time_or_for_a_sweeper(client: Client) -> None:
    explainer = WaitExplainer(WorkloadReader(ModelStore(client.database)))
    run = (await client.submit(run_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat())).row.id
    waiting = await explainer.explain(await client.find(run))
    assert waiting is not None
    assert waiting.code == "schedule"
    await client.database.fetch("UPDATE live_runs SET scheduled_at = now() - interval '1 minute' WHERE id = $1", run)
    assert await explainer.explain(await client.find(run)) == WaitingFor(
        "dispatcher", "a dispatcher begins the run soon"
    )
