"""How long a count of waiting jobs may be reused. It reads a whole index, so a slow count is repeated less often."""

FRESH_SECONDS = 1.0  # the least
COST = 20  # times as long as the count took: counting takes a twentieth of the time at most
LONGEST_FRESH = 30.0  # the most


def fresh_for(took: float) -> float:
    """Return for how many seconds a count that took so many is fresh."""
    return min(max(FRESH_SECONDS, COST * took), LONGEST_FRESH)
