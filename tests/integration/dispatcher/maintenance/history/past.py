"""Jobs with a history of every kind, and time that passes for generations."""

from typing import Any, NamedTuple
from uuid import UUID

from common.job_states import Status
from common.jobs.end import end_jobs
from common.jobs.requeue import requeue_jobs
from common.postgres.database import Database
from services.dispatcher.maintenance.history import history
from services.dispatcher.maintenance.history.store import HistoryStore
from services.dispatcher.results.store import ResultStore, Step
from services.notifier.claims.store import ClaimedDelivery
from services.notifier.delivery_attempts.retry_schedule import Rescheduled
from tests.integration.deliveries import subscribe
from tests.integration.jobs import claim, new_end, new_requeue, submit
from tests.integration.notifier.steps import FAILED, OK, Result, Steps

RETENTION = 600.0
SIXTH = RETENTION / 6
AGAIN: Result = (FAILED[0], Rescheduled(0.0))
TABLES = ("jobs", "events", "deliveries", "attempts", "job_attempts", "job_steps")
PASS_TIME = """
UPDATE generations
SET began_at = began_at - make_interval(secs => $1), ended_at = ended_at - make_interval(secs => $1)
"""
COUNTED = "UPDATE usage_progress SET counted_before = pg_current_xact_id()"
HEALTHY = "UPDATE endpoints SET failures = 0, failing_since = NULL, open_until = NULL"
NEXT = "SELECT number, began_at IS NULL AS empty FROM generations WHERE number = current_generation() % 8 + 1"


class OldJob(NamedTuple):
    """An ended job, the event of its end, and the delivery of that."""

    id: UUID
    event: UUID
    delivery: UUID


class Past:
    """A tenant with one subscription to jobs of the model echo, and its history."""

    def __init__(self, database: Database, tenant: UUID) -> None:
        self.database, self.tenant = database, tenant
        self.store = HistoryStore(database)
        self.notifier = Steps(database)

    async def subscribe(self) -> UUID:
        return (await subscribe(self.database, self.tenant, models=["echo"])).id

    async def add(self, status: Status = Status.SUCCEEDED, *results: Result, **options: Any) -> OldJob:
        """Add a job with one row in each table. `results`: of its delivery; by default FAILED, then OK."""
        job = await submit(self.database, self.tenant, **options)
        await requeue_jobs(self.database, [new_requeue(await claim(self.database, job))])
        running = await claim(self.database, job)
        await ResultStore(self.database).add_steps([Step(job, running.claim, 1, b"[]")])
        ended = new_end(running, status)
        assert await end_jobs(self.database, [ended]) == {ended.event.id}
        await self.database.fetch(HEALTHY)
        (claimed,) = await self.notifier.take(ended.event.id)
        first, *others = results or (AGAIN, OK)
        await self.notifier.record([claimed], first)
        for result in others:
            await self.attempt(result)
        return OldJob(job, ended.event.id, claimed.id)

    async def add_silent(self, **options: Any) -> UUID:
        """Add an ended job that nobody hears of."""
        job = await submit(self.database, self.tenant, **{"model": "silent"} | options)
        assert await end_jobs(self.database, [new_end(await claim(self.database, job))])
        return job

    async def attempt(self, result: Result) -> list[ClaimedDelivery]:
        """Send what is due, and record this result."""
        claims = await self.notifier.attempt(result)
        assert claims
        return claims

    async def count(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        counts = ", ".join(f"(SELECT count(*) FROM {table}) AS {table}" for table in TABLES)  # noqa: S608 -- constants
        (found,) = await self.database.fetch(f"SELECT {counts}")
        return dict(found)

    async def has(self, job: UUID) -> bool:
        return bool(await self.database.fetch("SELECT FROM jobs WHERE id = $1", job))

    async def pass_time(self, seconds: float) -> None:
        """Let time pass for generations, and count all usage meanwhile."""
        await self.database.fetch(PASS_TIME, seconds)
        await self.database.fetch(COUNTED)

    async def sweep(self) -> int:
        """Do what a dispatcher does from time to time. Return how many generations were emptied."""
        emptied = await history.sweep(self.store, RETENTION)
        await history.release_files(self.store)
        return emptied

    async def begin(self) -> int:
        """Begin the next generation. Return it."""
        await self.pass_time(SIXTH)
        number = await self.store.begin_next(SIXTH)
        assert number is not None
        return number

    async def age(self) -> int:
        """Begin the next generation. Let the ended ones be as old as the retention, and empty them. Return how many."""
        await self.begin()
        await self.pass_time(RETENTION)
        return await self.sweep()

    async def find_current(self) -> int:
        (found,) = await self.database.fetch("SELECT current_generation() AS number")
        number: int = found["number"]
        return number

    async def is_next_empty(self) -> bool:
        (found,) = await self.database.fetch(NEXT)
        empty: bool = found["empty"]
        return empty


def make_counts(number: int, **others: int) -> dict[str, int]:
    """Return `number` rows of each table, but for others."""
    return dict.fromkeys(TABLES, number) | others
