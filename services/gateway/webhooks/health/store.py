"""Measures how the deliveries of subscriptions went. Reads a bounded number of rows for each."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.webhooks.health")


class Sample(NamedTuple):
    """How much is read of each subscription."""

    deliveries: int  # the newest
    attempts: int  # of each delivery, the latest, beside the one that ended it


class Window(NamedTuple):
    """What became of deliveries within some minutes. Times are in milliseconds."""

    succeeded: int = 0
    failed: int = 0
    attempts: int = 0
    failed_attempts: int = 0
    durations: Sequence[float] | None = None  # the median and the 95th percentile of attempts that succeeded


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a subscription."""

    webhook_id: UUID
    open: bool  # its circuit
    failing_since: datetime | None
    pending: int
    oldest_due_at: datetime | None
    counted_since: datetime | None = None  # only deliveries that were created since then count; None: all do
    hour: Window = Window()
    day: Window = Window()


class HealthStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def measure(self, webhooks: Sequence[UUID], sample: Sample) -> dict[UUID, Health]:
        """Measure subscriptions by a sample of each."""
        found = await self._database.fetch(QUERIES["find_health"], webhooks, sample.deliveries)
        measured = await self._database.fetch(QUERIES["measure_deliveries"], webhooks, *sample)
        healths = {record["webhook_id"]: Health(**record) for record in found}
        for webhook_id, minutes, counted_since, *counts in measured:
            if webhook_id in healths:
                part = {"hour" if minutes == 60 else "day": Window(*counts)}
                healths[webhook_id] = msgspec.structs.replace(healths[webhook_id], counted_since=counted_since, **part)
        return healths
