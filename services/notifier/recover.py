"""Re-sending what failed during an outage of the receiver, oldest first, a few at a time; and giving up what waited a
whole schedule behind an open circuit."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from common import ids, tracing
from common.database import Connection, Database
from common.errors import Unavailable
from common.logs import Log
from common.outbox import Outbox
from services.notifier import operations
from services.notifier.schedule import JITTER
from services.notifier.store import QUERIES

TICK_SECONDS = 1.0
SKEW = timedelta(hours=1)  # by which an id's time may differ from the database's
OVERDUE_LIMIT = 500  # given up at a time
OVERDUE_TICKS = 30  # between two looks for such

log = Log("recovery")


class Recovery:
    def __init__(
        self, database: Database, outbox: Outbox, wake: Callable[[], None], *, rate: float, plan: Sequence[float]
    ) -> None:
        """At most `rate` deliveries a second and subscription; `plan` is the schedule, in seconds."""
        self.database = database
        self.outbox = outbox
        self.wake = wake
        self.bite = max(1, round(rate * TICK_SECONDS))
        self.whole_plan = sum(plan) * (1 + JITTER)

    async def run(self) -> None:
        """Until cancelled; any instance does it, and goes on where another stopped."""
        ticks = 0
        while True:
            await asyncio.sleep(TICK_SECONDS)
            ticks += 1
            try:
                while await self.advance():
                    pass
                if ticks % OVERDUE_TICKS == 0:
                    await self.give_up()
            except Unavailable as error:
                log.warning("recovery.waits", error=error)

    async def advance(self) -> bool:
        """Re-sends the next few of one recovery; whether there was one to go on with."""
        async with self.database.transaction() as connection:
            found = await connection.fetchrow(QUERIES["take_recovery"])
            if found is None:
                return False
            revived, done = await self.revive(
                connection, found["webhook_id"], found["behind"], found["since"], found["until"]
            )
            values = (found["id"], revived[-1] if revived else found["behind"], len(revived))
            await connection.execute(QUERIES["advance_recovery"], *values, None if done else TICK_SECONDS)
        log.info(
            "recovery.advanced",
            webhook_id=ids.show(ids.Kind.WEBHOOK, found["webhook_id"]),
            count=len(revived),
            done=done,
        )
        self.wake()
        return True

    async def revive(
        self, connection: Connection, endpoint: UUID, behind: UUID | None, since: datetime, until: datetime
    ) -> tuple[list[UUID], bool]:
        """The next few, in order, and whether they were the last. None while as many are due already: so what is sent
        for the first time never waits behind more than one bite."""
        await connection.execute(QUERIES["lock_endpoints"], [endpoint])
        due = await connection.fetchval(QUERIES["count_due"], endpoint, self.bite)
        room = self.bite - due
        if room <= 0:
            return [], False
        first = behind or ids.earliest(since - SKEW)
        values = (endpoint, first, ids.earliest(until + SKEW), since, until, "webhook.test", room)
        found = await connection.fetch(QUERIES["revive_deliveries"], *values)
        revived = sorted(record["id"] for record in found)
        if revived:
            await connection.execute(QUERIES["ring_endpoint"], endpoint)
        return revived, len(revived) < room

    async def give_up(self) -> None:
        found = await self.database.fetch(QUERIES["find_overdue"], self.whole_plan, OVERDUE_LIMIT)
        if not found:
            return
        async with self.database.transaction() as connection:
            endpoints = list({record["endpoint_id"] for record in found})
            await connection.execute(QUERIES["lock_endpoints"], endpoints)
            gone = await connection.fetch(QUERIES["exhaust_deliveries"], [record["id"] for record in found])
            messages = await operations.tell_exhausted(connection, [record["id"] for record in gone])
        self.outbox.announce(messages)
        for record in gone:
            log.warning(
                "delivery.exhausted",
                delivery_id=ids.show(ids.Kind.DELIVERY, record["id"]),
                **({} if record["job_id"] is None else {"job_id": ids.show(ids.Kind.JOB, record["job_id"])}),
                tenant=ids.show(ids.Kind.TENANT, record["tenant_id"]),
                trace_id=tracing.trace_id(record["traceparent"]),
                error="its endpoint failed all the time",
            )
