"""Times that clients send, brought into a range that PostgreSQL and Python can handle. Pure."""

from datetime import UTC, datetime

# No time of ours lies outside this range. The ends of Python's calendar overflow in some time zones and in additions,
# and PostgreSQL's driver takes them for infinity.
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def bound(at: datetime) -> datetime:
    """Clamp a time to the range; without a zone it is in UTC."""
    return min(max(at if at.tzinfo else at.replace(tzinfo=UTC), EARLIEST), LATEST)


def bound_optional(at: datetime | None) -> datetime | None:
    return None if at is None else bound(at)
