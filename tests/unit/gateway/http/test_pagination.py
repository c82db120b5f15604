"""Places in lists, shown and read again."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import ids
from common.job_states import Status
from services.gateway.admin.audit.routes import AuditFilter
from services.gateway.http.pagination import Cursor, ListFilter, decode_cursor, digest, encode_cursor
from services.gateway.jobs.store import JobFilter
from services.gateway.reports.usage.routes import UsageFilter

TENANT = ids.new()
TIMES = st.datetimes(datetime(2000, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))
FAILED = JobFilter(status=Status.FAILED)
PLACE = Cursor(datetime(2026, 11, 21, 2, 53, 41, 123456, tzinfo=UTC), ids.new())


@given(TIMES, st.uuids())
def test_what_is_shown_can_be_read(at: datetime, job: UUID) -> None:
    assert decode_cursor(encode_cursor(Cursor(at, job), TENANT, FAILED), TENANT, FAILED) == Cursor(at, job)


@pytest.mark.parametrize(
    "wanted",
    [
        JobFilter(),
        JobFilter(status=Status.QUEUED),
        JobFilter(status=Status.FAILED, model="echo"),
        JobFilter(status=Status.FAILED, created_after=PLACE.created_at),
        JobFilter(status=Status.FAILED, created_before=PLACE.created_at - timedelta(days=1)),
    ],
)
def test_a_cursor_is_of_one_filter_only(wanted: JobFilter) -> None:
    assert decode_cursor(encode_cursor(PLACE, TENANT, FAILED), TENANT, wanted) is None


def test_a_cursor_is_of_one_tenant_only() -> None:
    assert decode_cursor(encode_cursor(PLACE, TENANT, FAILED), ids.new(), FAILED) is None


@given(st.text())
def test_other_text_is_no_cursor(text: str) -> None:
    assert decode_cursor(text, TENANT, FAILED) is None


def test_a_time_out_of_this_world_is_no_cursor() -> None:
    shown = encode_cursor(PLACE, TENANT, FAILED)
    assert decode_cursor(shown[:11] + "_" * 8 + shown[19:], TENANT, FAILED) is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (JobFilter(), "d203e79a230cae55"),
        (JobFilter(status=Status.FAILED, created_after=PLACE.created_at), "f3b29484afb93e15"),
        (AuditFilter(), "f12ab2a520ae5d1b"),
        (UsageFilter(model="echo"), "3fdce2a8e9128f09"),
    ],
)
def test_the_gateways_of_all_releases_take_the_same_cursors(wanted: ListFilter, expected: str) -> None:
    """An upgrade replaces one gateway after the other, while clients page. So a new field must not change a digest."""
    assert digest(UUID(int=1), wanted).hex() == expected


def test_every_field_of_a_filter_has_a_default() -> None:
    kinds = ListFilter.__subclasses__()
    assert {JobFilter, AuditFilter, UsageFilter} <= {*kinds}
    for kind in kinds:
        assert msgspec.to_builtins(kind()).keys() == {"list"}
