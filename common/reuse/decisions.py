"""What becomes of a job with a key, given the job that answers the key: its twin. Pure.

A twin waits, runs or has succeeded. A result is good only while the load of the model that made it is still served.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from common.job_states import TERMINAL, Status


class Decision(StrEnum):
    """`HIT`: the job takes the result. `JOIN`: it waits for the twin. `LEAD`: it becomes the twin."""

    HIT = "hit"
    JOIN = "join"
    LEAD = "lead"


class Wish(NamedTuple):
    """What a job accepts: results of `model` up to `max_age` seconds old when it was submitted (`at`)."""

    model: str
    fallback_model: str | None
    max_age: float
    at: datetime


class Twin(NamedTuple):
    """The job that a key names now. `forgotten_at`: results from before it were erased."""

    model: str
    version: str | None
    status: Status
    finished_at: datetime | None
    erased_at: datetime | None
    load_id: UUID | None
    forgotten_at: datetime | None


Loads = Collection[tuple[str, UUID]]  # those of a model that answer the version asked for, each with its version


def decide(wish: Wish, twin: Twin | None, loads: Loads) -> Decision:
    """Return what a new job does."""
    if twin is None:
        return Decision.LEAD
    if is_live(twin):
        return Decision.JOIN if twin.model in (wish.model, wish.fallback_model) else Decision.LEAD
    if twin.model == wish.model and may_take(wish, twin, loads):
        return Decision.HIT
    return Decision.LEAD


def is_live(twin: Twin) -> bool:
    """Return whether the twin may still succeed: it waits or runs, and nobody cancels it."""
    return twin.status not in TERMINAL and twin.status is not Status.CANCELING


def may_take(wish: Wish, twin: Twin, loads: Loads) -> bool:
    """Return whether a job that waited may take the result of its twin.

    It also takes a result of the fallback model. `loads` are those of the twin's model.
    """
    if twin.model not in (wish.model, wish.fallback_model):
        return False
    if twin.status is not Status.SUCCEEDED or twin.erased_at is not None or twin.finished_at is None:
        return False
    if twin.forgotten_at is not None and twin.finished_at <= twin.forgotten_at:
        return False
    if twin.finished_at < wish.at - timedelta(seconds=wish.max_age):
        return False
    return twin.version is not None and twin.load_id is not None and (twin.version, twin.load_id) in loads
