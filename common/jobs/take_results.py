"""Groups of jobs that wait for a twin, and take its result."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from common.job_states import Status
from common.jobs.announced import read_wake_up
from common.jobs.job import WaitingJob, read_jobs
from common.jobs.moves import Move, Moves, stay
from common.jobs.new_event import NewEvent
from common.postgres import statements
from common.postgres.statements import Executor
from common.rabbitmq.wake_ups import WakeUp
from common.reuse.key import ReuseKey

STATEMENTS = statements.load("common.jobs", "take_results.sql")
MOVES = (
    Moves("take_results", [Move(Status.QUEUED, Status.SUCCEEDED, "its twin succeeded")]),
    Moves("release_joiners", stay(Status.QUEUED)),
)


class Joiner(WaitingJob, frozen=True, kw_only=True):
    """A job that waits for its twin. It takes results up to `reuse_seconds` old when it was submitted."""

    reuse_seconds: float
    fallback_model: str | None = None


class Group(NamedTuple):
    """Jobs that wait for the twin of a key. `is_live`: there is one that may still succeed."""

    key: ReuseKey
    is_live: bool


class Page(NamedTuple):
    """The first jobs of a group, at most `size` of them."""

    key: ReuseKey
    size: int


class TakenResult(NamedTuple):
    """The end of a job with the result of its twin, under the twin's claim."""

    id: UUID
    twin: UUID
    claim: int
    finished_at: datetime
    event: NewEvent


async def find_groups(executor: Executor, after: ReuseKey, limit: int) -> list[Group]:
    """Return the next groups after a key, in the order of their keys."""
    found = await STATEMENTS["find_groups"].run(executor, tenant=after.tenant_id, key=after.key, limit=limit)
    return [Group(ReuseKey(record["tenant_id"], record["key"]), record["is_live"]) for record in found]


async def list_joiners(executor: Executor, pages: Sequence[Page]) -> list[tuple[Joiner, datetime]]:
    """Return the jobs of pages, oldest first, each with the database's time."""
    return read_jobs(Joiner, await STATEMENTS["list_joiners"].run(executor, pages=pages))


async def take_results(executor: Executor, ends: Sequence[TakenResult]) -> set[UUID]:
    """End jobs with the results of their twins. Return those that ended."""
    return {record["id"] for record in await STATEMENTS["take_results"].run(executor, ends=ends)}


async def release_joiners(executor: Executor, jobs: Sequence[UUID]) -> list[WakeUp]:
    """Let jobs share nothing any more, and make them claimable. Return the wake-ups of those that still waited."""
    return [read_wake_up(each) for each in await STATEMENTS["release_joiners"].run(executor, jobs=jobs)]


async def remove_twins(executor: Executor, after: ReuseKey, limit: int) -> tuple[ReuseKey, int] | None:
    """Remove twins whose job is gone from the next page. Return its last key and its length; None at the end."""
    for record in await STATEMENTS["remove_twins"].run(executor, tenant=after.tenant_id, key=after.key, limit=limit):
        return ReuseKey(record["tenant_id"], record["key"]), record["examined"]
    return None
