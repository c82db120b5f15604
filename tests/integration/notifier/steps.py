"""Runs a notifier one step at a time: take, claim, record, recover."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from common.postgres.database import Database
from services.notifier.claims.store import ClaimedDelivery, ClaimStore
from services.notifier.delivery_attempts.recorder import AttemptRecorder, make_record
from services.notifier.delivery_attempts.result import AttemptError, AttemptResult
from services.notifier.delivery_attempts.retry_schedule import Decision, Exhausted, Rescheduled, Succeeded
from services.notifier.delivery_attempts.store import AttemptStore
from services.notifier.ended_subscriptions.sweep import EndedSubscriptions
from services.notifier.endpoints.due_endpoints import DueEndpoints
from services.notifier.new_deliveries.store import NewDeliveryStore
from services.notifier.overdue_deliveries.sweep import OverdueDeliveries
from services.notifier.recovery.sweep import Recovery
from tests.support.recorded_wake_ups import RecordedWakeUps

LEASE = 30.0
DAY = 86_400.0
SCHEDULE = (0.0, 5.0, 300.0)
Result = tuple[AttemptResult, Decision]

OK: Result = (AttemptResult(status_code=204, seconds=0.25), Succeeded())
FAILED: Result = (AttemptResult(status_code=500, error=AttemptError.HTTP_STATUS, response=b"oh"), Rescheduled(60.0))
GIVEN_UP: Result = (FAILED[0], Exhausted())
GONE: Result = (AttemptResult(status_code=410, error=AttemptError.HTTP_STATUS), Exhausted(disables_webhook=True))
INTERNAL: Result = (AttemptResult(error=AttemptError.LOCAL_FAULT, internal=True), Rescheduled(1.0, counted=False))


class CountedWakes(DueEndpoints):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def wake(self) -> None:
        self.count += 1
        super().wake()


class Steps:
    def __init__(
        self, database: Database, *, endpoint_concurrency: int = 10, disable_after: float = 5 * DAY, rate: float = 50.0
    ) -> None:
        self.database = database
        self.endpoint_concurrency = endpoint_concurrency
        self.new = NewDeliveryStore(database)
        self.claims = ClaimStore(database)
        self.due = CountedWakes()
        self.wake_ups = RecordedWakeUps()
        self.recorder = AttemptRecorder(
            AttemptStore(database, database),
            self.wake_ups,
            self.due,
            endpoint_concurrency=endpoint_concurrency,
            disable_after=disable_after,
        )
        self.ended_subscriptions = EndedSubscriptions(
            database, self.due.wake, endpoint_concurrency=endpoint_concurrency
        )
        self.recovery = Recovery(database, self.due.wake, rate=rate)
        self.overdue = OverdueDeliveries(database, self.wake_ups, SCHEDULE, endpoint_concurrency=endpoint_concurrency)

    @property
    def woken(self) -> int:
        return self.due.count

    async def schedule(self, *events: UUID) -> None:
        """Take the new deliveries of events without claims."""
        self.due.add((await self.new.schedule(dict.fromkeys(events, ""), 0.0, LEASE)).endpoints)

    async def take(self, *events: UUID, limit: int = 100) -> list[ClaimedDelivery]:
        """Take the new deliveries of events. Return the claims."""
        traceparents = dict.fromkeys(events, "trace")
        found, _, claims = await self.new.claim(traceparents, limit, LEASE, self.endpoint_concurrency)
        if found > len(claims):
            self.due.add((await self.new.schedule(traceparents, 0.0, LEASE)).endpoints)
        return claims

    async def claim(self, limit: int = 100, lease: float = LEASE) -> list[ClaimedDelivery]:
        """Claim due deliveries. Keep endpoints that another transaction has locked for the next claim."""
        found = await self.claims.claim_due(limit, lease, self.endpoint_concurrency, list(self.due.take()))
        self.due.put_back(found.held)
        return found.claims

    async def record(self, claims: Sequence[ClaimedDelivery], result: Result) -> list[bool]:
        return await asyncio.gather(*(self.recorder.record(make_record(claim, *result)) for claim in claims))

    async def attempt(self, result: Result, limit: int = 100) -> list[ClaimedDelivery]:
        """Claim the due deliveries, and record the same result for each."""
        claims = await self.claim(limit)
        await self.record(claims, result)
        return claims
