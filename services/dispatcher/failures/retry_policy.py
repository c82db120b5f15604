"""Decides what happens to a job after a failed attempt. Pure."""

from typing import assert_never

import msgspec

from common.job_states import Failure
from common.jobs.job import ClaimedJob

# A job that runs while Triton or its dispatcher dies gets its attempt back. But after this many interruptions in a row
# it may be what kills them. From then on it is suspected poison and on probation: no other suspect runs where one crash
# could hit both, and an interruption counts. A job that runs for this long is no longer suspected. The time doubles
# with each further interruption, so that a job that kills slowly is found too.
MAX_INTERRUPTIONS = 3
PROBATION_SECONDS = 30.0
# From this interruption on, it waits before its next attempt, twice as long each time.
FIRST_PAUSED = 5
PAUSE_SECONDS = 15.0
MAX_PAUSE_SECONDS = 60.0
REFUSED_DELAY_SECONDS = 0.25


class Interrupted(msgspec.Struct, frozen=True):
    """Triton or the model went away during the attempt. The job is probably not the cause.

    `doubtful`: an unproven job of another tenant ran beside it, and may be the cause.
    """

    failure: Failure
    doubtful: bool = False


class Lost(msgspec.Struct, frozen=True):
    """The dispatcher died or was cut off during the attempt, some time after it renewed its leases. See Interrupted."""

    failure: Failure
    doubtful: bool = False


class Refused(msgspec.Struct, frozen=True):
    """The attempt never began: Triton or the object store was away, or a queue was full.

    It cost no inference, so it never counts.

    The job waits for `delay` seconds at least, and for twice as many at most.
    """

    failure: Failure
    delay: float = REFUSED_DELAY_SECONDS


class Attempted(msgspec.Struct, frozen=True):
    """The attempt itself failed."""

    failure: Failure


Outcome = Interrupted | Lost | Refused | Attempted


class GiveBack(msgspec.Struct, frozen=True):
    """Queue the job again, due after `delay` seconds. The attempt does not count."""

    delay: float


class Again(msgspec.Struct, frozen=True):
    """Queue the job again, due after `delay` seconds."""

    delay: float


class FallBack(msgspec.Struct, frozen=True):
    """Queue the job again at once, for one attempt on another model."""

    model: str


class Fail(msgspec.Struct, frozen=True):
    """Fail the job for good."""


def decide(
    job: ClaimedJob, outcome: Outcome, chance: float, *, suspected: bool, interruptions: int
) -> GiveBack | Again | FallBack | Fail:
    """Return the decision. `chance` is a random number in [0, 1) for full jitter, which spreads retries over time.

    `suspected`: see `is_suspected`. `interruptions` includes this attempt.
    """
    if isinstance(outcome, Refused):
        return GiveBack(outcome.delay * (1 + chance))
    pause = find_pause(interruptions)
    if isinstance(outcome, Interrupted | Lost) and not suspected:
        return GiveBack(pause)
    if outcome.failure.retryable and job.attempt < job.max_attempts:
        ceiling = min(job.max_delay, job.initial_delay * 2.0 ** min(job.attempt - 1, 60))
        return Again(max(pause, ceiling * chance))
    if job.fallback_model is not None:
        return FallBack(job.fallback_model)
    return Fail()


def is_suspected(probation: float | None, outcome: Outcome, ran: float) -> bool:
    """Return whether an attempt counts that was interrupted after `ran` seconds.

    The job was on probation then, and no other tenant's job may be the cause. It is not known when a lost attempt
    ended. So the probation holds that the last renewal of the lease left.
    """
    if probation is None or (isinstance(outcome, Interrupted | Lost) and outcome.doubtful):
        return False
    return isinstance(outcome, Lost) or ran < probation


def count_interruptions(before: int, outcome: Outcome) -> int | None:
    """Return the number of interruptions in a row after an attempt. None: as before, it never began."""
    match outcome:
        case Interrupted() | Lost():
            return before + 1
        case Attempted():
            return 0
        case Refused():
            return None
        case never:
            assert_never(never)


def find_pause(interruptions: int) -> float:
    """Return for how many seconds a job waits before its next attempt: it may stop Triton only so often in an hour."""
    if interruptions < FIRST_PAUSED:
        return 0.0
    return min(PAUSE_SECONDS * 2.0 ** min(interruptions - FIRST_PAUSED, 30), MAX_PAUSE_SECONDS)


def find_probation(interruptions: int) -> float | None:
    """Return for how many seconds of its next attempt a job is suspected. None: it is not."""
    if interruptions < MAX_INTERRUPTIONS:
        return None
    return PROBATION_SECONDS * 2.0 ** min(interruptions - MAX_INTERRUPTIONS, 30)
