"""Times that clients give. Pure."""

from datetime import UTC, datetime

# Nothing of ours is from outside these. The ends of the calendar lie beyond it in some zones, nothing can be added to
# them, and PostgreSQL's driver takes them for infinity.
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def bound(at: datetime) -> datetime:
    """The time, or the earliest or latest that means the same; without a zone it is in UTC."""
    return min(max(at if at.tzinfo else at.replace(tzinfo=UTC), EARLIEST), LATEST)


def bound_optional(at: datetime | None) -> datetime | None:
    return None if at is None else bound(at)
