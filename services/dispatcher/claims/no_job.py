"""Says why a claim got no job."""

from enum import Enum

from common.jobs.claim import ClaimBatch
from services.dispatcher.claims.candidates import Candidates


class NoJob(Enum):
    """Why a claim got no job."""

    UNKNOWN = "no known job may start: search"
    QUEUE_EMPTY = "the queue is empty, or its jobs may not start now"
    LOCKED = "other transactions hold all queued jobs, or have just taken them"
    NO_ROOM = "the inputs of running jobs leave no room"


def explain(claimed: ClaimBatch, candidates: Candidates, asked_at: float) -> NoJob:
    """Return why a claim got no more jobs."""
    if claimed.contended:
        return NoJob.LOCKED
    if claimed.is_limited:
        return NoJob.QUEUE_EMPTY
    if not candidates.was_searched_since(asked_at):
        return NoJob.UNKNOWN
    if claimed.next_bytes is not None:
        return NoJob.NO_ROOM
    return NoJob.QUEUE_EMPTY if candidates.found_all else NoJob.LOCKED
