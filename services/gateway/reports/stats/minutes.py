"""What became of jobs by minute, from the changes in each minute. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from services.gateway.reports.stats.store import Minute


class MinuteCounts(NamedTuple):
    at: datetime  # its beginning
    ended: int  # within the minute
    failed: int
    waiting: int  # at its end
    running: int


def count_up(minutes: Sequence[Minute], most: int) -> list[MinuteCounts]:
    """Return the counts of each whole minute and of the present one.

    The first minute is never whole. If `most` ends were counted, neither is the first one with an end, nor are those
    before it.
    """
    counts: list[MinuteCounts] = []
    waiting = running = 0
    for minute in minutes:
        waiting, running = waiting + minute.waiting, running + minute.running
        counts.append(MinuteCounts(minute.at, minute.ended, minute.failed, waiting, running))
    whole = 1
    if sum(minute.ended for minute in minutes) >= most:
        whole += next(place for place, minute in enumerate(minutes) if minute.ended)
    return counts[whole:]
