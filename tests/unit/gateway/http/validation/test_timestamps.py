"""Times that clients give."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from services.gateway.http.validation.timestamps import EARLIEST, LATEST, bound, bound_optional

EAST = timezone(timedelta(hours=14))
WEST = timezone(timedelta(hours=-12))


def test_an_ordinary_time_stays() -> None:
    at = datetime(2026, 11, 21, 6, tzinfo=EAST)
    assert bound(at) is at
    assert bound_optional(at) is at
    assert bound_optional(None) is None


def test_without_a_zone_it_is_utc() -> None:
    assert bound(datetime(2026, 11, 21)) == datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize("zone", [None, UTC, EAST, WEST])
def test_the_ends_of_the_calendar_are_brought_nearer(zone: timezone | None) -> None:
    assert bound(datetime.min.replace(tzinfo=zone)) == EARLIEST
    assert bound(datetime.max.replace(tzinfo=zone)) == LATEST
