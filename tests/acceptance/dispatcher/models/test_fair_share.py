"""A tenant's jobs do not wait for all the jobs that another tenant has queued."""

from tests.support.api.api_client import Api, Jobs, read
from tests.support.api.api_shapes import BatchAccepted
from tests.support.api.batches import wait_for_batch
from tests.support.api.model_inputs import work

BACKLOG = 120  # jobs, of which eight run at once
JOB_MS = 300  # so that the backlog lasts more than four seconds
PROBES = 2  # jobs, one after the other; all while the backlog lasts
SLOTS = 16  # backlog jobs that run at once
MOST_STARTED_BEFORE = 3 * SLOTS  # by order of submission it would be all that wait


async def test_job_does_not_wait_for_the_backlog_of_another_tenant(api: Api, other_tenant: Api) -> None:
    item = {"model": "work", "inputs": work(JOB_MS)}
    backlog = read(await other_tenant.http.post("/v1/batches", json=[item] * BACKLOG, timeout=30), 202, BatchAccepted)
    probes = [await api.run("work", work(JOB_MS)) for _ in range(PROBES)]
    queued = read(await other_tenant.http.get("/v1/jobs", params={"batch": backlog.id, "status": "queued"}), 200, Jobs)
    assert queued.items, "the backlog ended too early"

    await wait_for_batch(other_tenant, backlog.id, within=90.0)
    starts = [
        job.started_at
        for job in await other_tenant.list_all_jobs(batch=backlog.id, limit=100)
        if job.started_at is not None
    ]
    for probe in probes:
        assert probe.status == "succeeded"
        assert probe.started_at is not None
        before = sum(1 for start in starts if probe.created_at <= start < probe.started_at)
        assert before <= MOST_STARTED_BEFORE, (before, probe)
