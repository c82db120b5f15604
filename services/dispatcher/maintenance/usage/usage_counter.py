"""Adds up what tenants used, and counts it in metrics where the operator wants that."""

import asyncio

from common import ids
from common.postgres.database import Database
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher import metrics
from services.dispatcher.maintenance.usage.store import UsageSum, roll_up

INTERVAL_SECONDS = 5.0
BATCH = 5000  # ended jobs in one transaction, and the rest of the last one's own

log = Log("usage")


async def run(database: Database, *, by_tenant: bool) -> None:
    """Roll up at intervals, until cancelled. One instance at a time does it. `by_tenant` sets metrics too."""
    outage = Outage()
    while True:
        with outage.tolerate("usage.database_unavailable", log):
            while sums := await roll_up(database, BATCH):
                for each in sums if by_tenant else ():
                    count(each)
                if sum(each.jobs for each in sums) < BATCH:
                    break
        await asyncio.sleep(INTERVAL_SECONDS)


def count(used: UsageSum) -> None:
    """Add the usage to the metrics of its tenant."""
    labels = ids.encode(ids.Kind.TENANT, used.tenant_id), used.model
    for status in ("succeeded", "failed", "canceled", "expired", "reused"):
        metrics.tenant_jobs.labels(*labels, status).inc(getattr(used, status))
    metrics.tenant_inference_seconds.labels(*labels).inc(used.inference_seconds)
    metrics.tenant_bytes.labels(*labels, "in").inc(used.bytes_in)
    metrics.tenant_bytes.labels(*labels, "out").inc(used.bytes_out)
    metrics.tenant_tokens.labels(*labels, "prompt").inc(used.prompt_tokens)
    metrics.tenant_tokens.labels(*labels, "completion").inc(used.completion_tokens)
