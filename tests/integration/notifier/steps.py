"""A notifier's steps, taken one at a time: claim, record what came of it, recover."""

from collections.abc import Sequence
from uuid import UUID

from common.broker import Publisher
from common.database import Database
from common.outbox import Outbox
from services.notifier.outcome import Fault, Outcome
from services.notifier.record import Recorder, write_record
from services.notifier.recover import Recovery
from services.notifier.schedule import Again, Exhausted, Succeeded, Verdict
from services.notifier.store import Claim, Store

LEASE = 30.0
DAY = 86_400.0
PLAN = (0.0, 5.0, 300.0)
Result = tuple[Outcome, Verdict]

OK: Result = (Outcome(status_code=204, seconds=0.25), Succeeded())
FAILED: Result = (Outcome(status_code=500, fault=Fault.HTTP_STATUS, response=b"oh"), Again(60.0))
GIVEN_UP: Result = (FAILED[0], Exhausted())
GONE: Result = (Outcome(status_code=410, fault=Fault.HTTP_STATUS), Exhausted(gone=True))
OURS: Result = (Outcome(fault=Fault.LOCAL_FAULT, ours=True), Again(1.0, counted=False))


class Steps:
    def __init__(self, database: Database, *, each: int = 10, patience: float = 5 * DAY, rate: float = 50.0) -> None:
        self.database = database
        self.each = each
        self.store = Store(database)
        self.woken = 0
        self.outbox = Outbox(database, Publisher("amqp://nowhere", "tests"))  # nothing is announced: no broker
        self.recorder = Recorder(self.store, self.outbox, self.wake, concurrency=each, patience=patience)
        self.recovery = Recovery(database, self.outbox, self.wake, rate=rate, plan=PLAN)

    def wake(self) -> None:
        self.woken += 1

    async def fan_out(self, *events: UUID) -> int:
        """Claims nothing; how many deliveries were made."""
        return (await self.fan(dict.fromkeys(events, "")))[0]

    async def fan(self, events: dict[UUID, str], room: int = 0) -> tuple[int, list[Claim]]:
        fanned = await self.store.fan_out(events, 0.0, LEASE, self.each, room)
        if not fanned.left:
            return fanned.made, fanned.claims
        room -= len(fanned.claims)
        again = await self.store.fan_out_left(fanned.left, events, 0.0, LEASE, self.each, room)
        return fanned.made + again.made, fanned.claims + again.claims

    async def claim(self, limit: int = 100, lease: float = LEASE) -> list[Claim]:
        return (await self.store.claim_deliveries(limit, lease, self.each)).claims

    async def record(self, claims: Sequence[Claim], result: Result) -> list[bool]:
        return await self.recorder.write([write_record(claim, *result) for claim in claims])

    async def attempt(self, result: Result, limit: int = 100) -> list[Claim]:
        """Claims what is due, and records the same of each."""
        claims = await self.claim(limit)
        await self.record(claims, result)
        return claims
