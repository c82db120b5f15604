"""A lease is short and a job may be long. Heartbeats renew the lease."""

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.api.model_inputs import work
from tests.support.telemetry.scraped_metrics import read_metric


async def test_job_longer_than_its_lease_runs_once(stack: Stack, api: Api) -> None:
    longer = round(float(stack.environment["CHARONIA_LEASE"]) * 1500)  # ms
    job = await api.run("work", work(longer))
    assert (job.status, job.attempt, job.output("slept")) == ("succeeded", 1, [longer])
    assert await read_metric(stack.triton.metrics_url, "work_executions_total", request_id=job.id) == 1
