"""For how long a count of what waits is good: it reads an index of all that, so the longer it takes the rarer it is."""

FRESH_SECONDS = 1.0  # a count is good for so long,
COST = 20  # or for so many times as long as it took: a twentieth of the time goes into counting at most;
LONGEST_FRESH = 30.0  # but no longer


def last(took: float) -> float:
    """Seconds, of a count that took so many."""
    return min(max(FRESH_SECONDS, COST * took), LONGEST_FRESH)
