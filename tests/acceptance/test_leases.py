"""A lease is short and a job may be long: heartbeats keep it."""

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.metrics import read_metric
from tests.acceptance.samples import work


async def test_a_job_longer_than_its_lease_runs_once(stack: Stack, api: Api) -> None:
    longer = round(float(stack.environment["CHARONIA_LEASE"]) * 1500)  # ms
    job = await api.run("work", work(longer))
    assert (job.status, job.attempt, job.output("slept")) == ("succeeded", 1, [longer])
    assert await read_metric(stack.triton.metrics_url, "work_executions_total", request_id=job.id) == 1
