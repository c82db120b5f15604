"""The twins of keys: the jobs that answer all who ask the same."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg

from common.job_states import Priority, Status, read_text
from common.jobs.announced import read_wake_up
from common.jobs.moves import Moves, stay
from common.postgres import statements
from common.postgres.statements import Executor
from common.rabbitmq.wake_ups import WakeUp
from common.reuse.decisions import Loads, Twin
from common.reuse.key import ReuseKey

STATEMENTS = statements.load("common.jobs", "twins.sql")
MAX_KEYS = 32  # whose twins are read together: with outputs of 256 KiB they take 8 MiB
MOVES = (Moves("promote_twins", stay(Status.QUEUED)), Moves("lift_twins", stay(Status.QUEUED)))


class FoundTwin(NamedTuple):
    """The job that a key names, at the database's time `at`. `state` is None if it is gone.

    `outputs` is its result as JSON. They are left out if they are large; `outputs_size` has their bytes.
    `next_attempt_at` is until when a twin backs off.
    """

    job_id: UUID
    state: Twin | None
    at: datetime
    priority: Priority | None = None
    claim: int = 0
    traceparent: str = ""
    started_at: datetime | None = None
    inference_ms: float | None = None
    outputs: bytes | None = None
    outputs_size: int | None = None
    next_attempt_at: datetime | None = None

    @property
    def has_large_outputs(self) -> bool:
        return self.outputs is None and self.outputs_size is not None


class Promotion(NamedTuple):
    """A job that becomes the twin of its key in place of `before`, with whose claims its own go on."""

    id: UUID
    before: UUID | None
    priority: Priority
    claim: int


async def find_twins(executor: Executor, wanted: Sequence[ReuseKey], largest: int) -> dict[ReuseKey, FoundTwin]:
    """Return the twins of those of the keys that have one. Outputs over `largest` bytes are left out."""
    found = await STATEMENTS["find_twins"].run(executor, wanted=wanted, largest=largest)
    return {ReuseKey(record["tenant_id"], record["key"]): read_twin(record) for record in found}


def read_twin(record: asyncpg.Record) -> FoundTwin:
    """Return the twin in a record."""
    if record["status"] is None:
        return FoundTwin(record["job_id"], None, record["now"])
    state = Twin(
        record["model"],
        record["version"],
        read_text(Status, record["status"]),
        record["finished_at"],
        record["erased_at"],
        record["load_id"],
        record["forgotten_at"],
    )
    return FoundTwin(
        record["job_id"],
        state,
        record["now"],
        read_text(Priority, record["priority"]),
        record["claim"],
        record["traceparent"],
        record["started_at"],
        record["inference_ms"],
        record["outputs"],
        record["outputs_size"],
        record["scheduled_at"],
    )


async def is_awaited(executor: Executor, key: ReuseKey, job: UUID) -> bool:
    """Return whether jobs wait for the result of the twin of a key. False if the job is not the twin."""
    (record,) = await STATEMENTS["is_awaited"].run(executor, tenant=key.tenant_id, key=key.key, job=job)
    return bool(record["awaited"])


async def find_loads(executor: Executor, model: str, version: str | None) -> Loads | None:
    """Return the loads whose results answer jobs that want this version of the model. By default, it is the newest.

    Return None if the catalogue has no such model any more.
    """
    for record in await STATEMENTS["find_loads"].run(executor, model=model, version=version):
        return {(record["version"], load) for load in record["loads"] or ()}
    return None


async def promote_twins(executor: Executor, jobs: Sequence[Promotion]) -> list[WakeUp]:
    """Make jobs the twins of their keys, no two of them of the same. Return the wake-ups of those that now are."""
    return [read_wake_up(each) for each in await STATEMENTS["promote_twins"].run(executor, jobs=jobs)]


async def lift_twins(executor: Executor, keys: Sequence[ReuseKey]) -> list[WakeUp]:
    """Let twins run as soon as those that wait for them need it. Return the wake-ups of those that changed."""
    return [read_wake_up(each) for each in await STATEMENTS["lift_twins"].run(executor, keys=keys)]


async def forget_result(executor: Executor, job: UUID) -> None:
    """Let nobody take the result any more that an erased job took."""
    await STATEMENTS["forget_result"].run(executor, job=job)


async def forget_results_of_run(executor: Executor, run: UUID) -> None:
    """Let nobody take the results any more that the steps of an erased run took."""
    await STATEMENTS["forget_results_of_run"].run(executor, run=run)
