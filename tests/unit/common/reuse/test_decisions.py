"""When a job takes a result, waits for another job, or runs itself."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from common import ids
from common.job_states import Status
from common.reuse.decisions import Decision, Twin, Wish, decide, may_take

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOAD = ids.new()
LOADS = {("1", LOAD)}
WISH = Wish("echo", None, 60.0, NOW)
DONE = Twin("echo", "1", Status.SUCCEEDED, NOW - timedelta(seconds=30), None, LOAD, None)
RUNNING = DONE._replace(status=Status.PROCESSING, version=None, finished_at=None, load_id=None)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_without_a_twin_a_job_leads() -> None:
    assert decide(WISH, None, LOADS) is Decision.LEAD


@pytest.mark.parametrize("age", [0.0, 30.0, 60.0])
def test_a_good_result_is_taken(age: float) -> None:
    assert decide(WISH, DONE._replace(finished_at=ago(age)), LOADS) is Decision.HIT


@pytest.mark.parametrize(
    "changes",
    [
        {"finished_at": ago(60.1)},
        {"erased_at": NOW},
        {"load_id": None},
        {"load_id": ids.new()},
        {"version": "2"},
        {"version": None},
        {"forgotten_at": ago(30)},
        {"forgotten_at": ago(10)},
        {"model": "small"},
        {"status": Status.FAILED},
        {"status": Status.CANCELED},
        {"status": Status.EXPIRED},
        {"status": Status.CANCELING, "finished_at": None},
    ],
)
def test_a_twin_that_can_answer_nothing_is_replaced(changes: dict[str, Any]) -> None:
    assert decide(WISH, DONE._replace(**changes), LOADS) is Decision.LEAD


def test_a_result_from_after_an_erasure_is_taken() -> None:
    assert decide(WISH, DONE._replace(forgotten_at=ago(31)), LOADS) is Decision.HIT


@pytest.mark.parametrize("status", [Status.QUEUED, Status.PROCESSING])
def test_a_job_joins_a_twin_in_flight_whatever_its_age(status: Status) -> None:
    twin = RUNNING._replace(status=status)
    assert decide(WISH._replace(max_age=0.0), twin, ()) is Decision.JOIN
    assert decide(WISH, twin._replace(model="small"), LOADS) is Decision.LEAD
    assert decide(WISH._replace(fallback_model="small"), twin._replace(model="small"), LOADS) is Decision.JOIN


def test_who_waited_takes_what_ended_since_its_submit() -> None:
    now_only = WISH._replace(max_age=0.0)
    assert may_take(now_only, DONE._replace(finished_at=NOW), LOADS)
    assert not may_take(now_only, DONE, LOADS)
    small = DONE._replace(finished_at=NOW, model="small")
    assert not may_take(now_only, small, LOADS)
    assert may_take(now_only._replace(fallback_model="small"), small, LOADS)
