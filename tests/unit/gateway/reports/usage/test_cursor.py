"""A cursor of usage is a place in the list of one tenant and filter."""

from datetime import date

import msgspec
import pytest

from common import ids
from services.gateway.http.pagination import seal_cursor
from services.gateway.http.problems import Problem
from services.gateway.reports.usage.routes import UsageFilter, decode_cursor, encode_cursor
from services.gateway.reports.usage.store import UsageCursor, UsageRow

TENANT, DAY = ids.new(), date(2026, 11, 22)
ROW = UsageRow(DAY, "echo", 1, 0, 0, 0, 0.5, 4, 4, 0, 0, 0)
FILTER = UsageFilter(until=DAY)


def test_a_cursor_is_the_place_after_its_row() -> None:
    assert decode_cursor(encode_cursor(ROW, TENANT, FILTER), TENANT, FILTER) == UsageCursor(DAY, "echo")


@pytest.mark.parametrize("change", [{"since": DAY}, {"until": None}, {"model": "echo"}], ids=str)
def test_a_cursor_of_a_different_filter_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(Problem):
        decode_cursor(encode_cursor(ROW, TENANT, FILTER), TENANT, msgspec.structs.replace(FILTER, **change))


def test_a_cursor_of_a_different_tenant_is_refused() -> None:
    with pytest.raises(Problem):
        decode_cursor(encode_cursor(ROW, TENANT, FILTER), ids.new(), FILTER)


@pytest.mark.parametrize("forged", [b"", b"2026-13-01echo", b"\xff", b"2026-11-22a\0b"])
def test_a_forged_cursor_is_refused(forged: bytes) -> None:
    with pytest.raises(Problem):
        decode_cursor(seal_cursor(forged, TENANT, FILTER), TENANT, FILTER)
