"""Typed, time-sorted ids."""

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import ids
from common.ids import Kind

# The valid examples of the TypeID 0.3 specification
SPECIFIED = [
    ("00000000000000000000000000", "00000000-0000-0000-0000-000000000000"),
    ("00000000000000000000000001", "00000000-0000-0000-0000-000000000001"),
    ("0000000000000000000000000a", "00000000-0000-0000-0000-00000000000a"),
    ("0000000000000000000000000g", "00000000-0000-0000-0000-000000000010"),
    ("00000000000000000000000010", "00000000-0000-0000-0000-000000000020"),
    ("7zzzzzzzzzzzzzzzzzzzzzzzzz", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    ("0123456789abcdefghjkmnpqrs", "0110c853-1d09-52d8-d73e-1194e95b5f19"),
    ("01h455vb4pex5vsknk084sn02q", "01890a5d-ac96-774b-bcce-b302099a8057"),
]


@pytest.mark.parametrize(("suffix", "uuid"), SPECIFIED)
def test_the_specifications_examples(suffix: str, uuid: str) -> None:
    assert ids.encode(Kind.JOB, UUID(uuid)) == f"job_{suffix}"
    assert ids.parse(Kind.JOB, f"job_{suffix}") == UUID(uuid)


@given(st.uuids(), st.sampled_from(Kind))
def test_what_is_shown_can_be_read(value: UUID, kind: Kind) -> None:
    assert ids.parse(kind, ids.encode(kind, value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "job_",
        "job",
        "01h455vb4pex5vsknk084sn02q",
        "_01h455vb4pex5vsknk084sn02q",
        "evt_01h455vb4pex5vsknk084sn02q",
        "JOB_01h455vb4pex5vsknk084sn02q",
        "job_01H455VB4PEX5VSKNK084SN02Q",
        "job_01h455vb4pex5vsknk084sn02",
        "job_01h455vb4pex5vsknk084sn02qq",
        "job_81h455vb4pex5vsknk084sn02q",
        "job_01h455vb4pex5vsknk084sn02u",
        "job_01h455vb4pex5vsknk084sn0 q",
        "job__01h455vb4pex5vsknk084sn02q",
        "01890a5d-ac96-774b-bcce-b302099a8057",
    ],
)
def test_other_text_is_no_job_id(text: str) -> None:
    assert ids.parse(Kind.JOB, text) is None


@given(st.text())
def test_any_text_can_be_asked_about(text: str) -> None:
    ids.parse(Kind.JOB, f"job_{text}")


def test_new_ids_are_uuid7_of_now() -> None:
    before = time.time_ns() // 1_000_000
    made = ids.new()
    after = time.time_ns() // 1_000_000
    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    assert before <= made.int >> 80 <= after


def test_new_ids_differ_and_sort_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({ids.new() for _ in range(1000)}) == 1000
    shown = []
    for milliseconds in (1, 2, 1_700_000_000_000, 1_700_000_000_001):
        monkeypatch.setattr(time, "time_ns", lambda at=milliseconds: at * 1_000_000)
        shown.append(ids.encode(Kind.EVENT, ids.new()))
    assert shown == sorted(shown)


def test_no_id_of_a_time_sorts_before_the_earliest() -> None:
    before = datetime.now(UTC)
    made = [ids.new() for _ in range(100)]
    assert all(ids.earliest(before) <= each < ids.earliest(before + timedelta(minutes=1)) for each in made)
