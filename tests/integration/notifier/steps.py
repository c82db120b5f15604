"""Runs a notifier one step at a time: fan out, claim, record, recover."""

from collections.abc import Sequence
from uuid import UUID

from common.outbox import Outbox
from common.postgres.database import Database
from common.rabbitmq.publisher import Publisher
from services.notifier.attempt_recorder import AttemptRecorder, make_record
from services.notifier.attempt_result import AttemptError, AttemptResult
from services.notifier.endpoint_mutex import EndpointMutex
from services.notifier.recovery import Recovery
from services.notifier.retry_schedule import Decision, Exhausted, Rescheduled, Succeeded
from services.notifier.store.attempts import AttemptStore
from services.notifier.store.claims import Claim, ClaimStore
from services.notifier.store.fanout import ClaimOptions, FanoutStore

LEASE = 30.0
DAY = 86_400.0
SCHEDULE = (0.0, 5.0, 300.0)
Result = tuple[AttemptResult, Decision]

OK: Result = (AttemptResult(status_code=204, seconds=0.25), Succeeded())
FAILED: Result = (AttemptResult(status_code=500, error=AttemptError.HTTP_STATUS, response=b"oh"), Rescheduled(60.0))
GIVEN_UP: Result = (FAILED[0], Exhausted())
GONE: Result = (AttemptResult(status_code=410, error=AttemptError.HTTP_STATUS), Exhausted(disables_webhook=True))
INTERNAL: Result = (AttemptResult(error=AttemptError.LOCAL_FAULT, internal=True), Rescheduled(1.0, counted=False))


class Steps:
    def __init__(
        self, database: Database, *, endpoint_concurrency: int = 10, disable_after: float = 5 * DAY, rate: float = 50.0
    ) -> None:
        self.database = database
        self.endpoint_concurrency = endpoint_concurrency
        self.mutex = EndpointMutex()
        self.fanout = FanoutStore(database, self.mutex)
        self.claims = ClaimStore(database, self.mutex)
        self.woken = 0
        self.outbox = Outbox(
            database, Publisher("amqp://nowhere", "tests")
        )  # there is no broker, so nothing is announced
        self.recorder = AttemptRecorder(
            *(AttemptStore(database, self.mutex), self.outbox, self.wake),
            endpoint_concurrency=endpoint_concurrency,
            disable_after=disable_after,
        )
        self.recovery = Recovery(database, self.outbox, self.wake, rate=rate, schedule=SCHEDULE)

    def wake(self) -> None:
        self.woken += 1

    async def fan_out(self, *events: UUID) -> int:
        """Fan out without claims. Return the number of deliveries."""
        return (await self.fan_out_and_claim(dict.fromkeys(events, "")))[0]

    async def fan_out_and_claim(self, events: dict[UUID, str], limit: int = 0) -> tuple[int, list[Claim]]:
        """Return the number of deliveries, and the claims on them."""
        first = await self.fanout.fan_out(events, self.options(limit))
        if not first.deferred:
            return first.deliveries, first.claims
        options = self.options(limit - len(first.claims))
        second = await self.fanout.fan_out_with_locks(first.deferred, events, options)
        return first.deliveries + second.deliveries, first.claims + second.claims

    def options(self, limit: int) -> ClaimOptions:
        return ClaimOptions(0.0, LEASE, self.endpoint_concurrency, limit)

    async def claim(self, limit: int = 100, lease: float = LEASE) -> list[Claim]:
        return (await self.claims.claim_due(limit, lease, self.endpoint_concurrency)).claims

    async def record(self, claims: Sequence[Claim], result: Result) -> list[bool]:
        return await self.recorder.write([make_record(claim, *result) for claim in claims])

    async def attempt(self, result: Result, limit: int = 100) -> list[Claim]:
        """Claim the due deliveries, and record the same result for each."""
        claims = await self.claim(limit)
        await self.record(claims, result)
        return claims
