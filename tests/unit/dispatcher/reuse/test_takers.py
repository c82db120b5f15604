"""Who takes a result, what such a job looks like, and who becomes the twin. Pure."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from common import ids
from common.job_states import Priority, Status
from common.jobs.take_results import Joiner
from common.jobs.twins import FoundTwin
from common.reuse.decisions import Twin
from common.views.job import MAX_OUTPUTS, JobUrls
from services.dispatcher.reuse.takers import (
    PAGE_BYTES,
    PAGE_JOBS,
    Taker,
    choose_takers,
    end_taker,
    finish,
    measure_page,
    promote_first,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOAD = ids.new()
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = Twin("echo", "1", Status.SUCCEEDED, NOW, None, LOAD, None)
TWIN = FoundTwin(ids.new(), STATE, NOW, Priority.NORMAL, 3, TRACEPARENT, NOW, 5.0, b"[1]", 3)
JOINER = Joiner(
    id=ids.new(),
    tenant_id=ids.new(),
    model="echo",
    version=None,
    priority=Priority.NORMAL,
    status=Status.QUEUED,
    attempt=0,
    max_attempts=3,
    created_at=NOW - timedelta(seconds=10),
    run_at=NOW - timedelta(seconds=10),
    started_at=None,
    finished_at=None,
    expires_at=None,
    error_code=None,
    error_message=None,
    error_retryable=None,
    inference_ms=None,
    traceparent=TRACEPARENT,
    metadata=b'{"own": 1}',
    claim=0,
    reuse_seconds=60.0,
    reuse_key=bytes(32),
)


def join(**changes: Any) -> Joiner:
    return Joiner(**{name: getattr(JOINER, name) for name in JOINER.__struct_fields__} | {"id": ids.new()} | changes)


def test_a_page_has_a_bound_in_jobs_and_in_bytes() -> None:
    assert measure_page(None) == measure_page(TWIN) == PAGE_JOBS
    assert measure_page(TWIN, 3) == PAGE_JOBS // 3
    assert measure_page(TWIN, 2 * PAGE_JOBS) == 1
    large = measure_page(TWIN._replace(outputs=b"x" * MAX_OUTPUTS))
    assert 1 < large < PAGE_JOBS
    assert large * MAX_OUTPUTS <= PAGE_BYTES
    assert measure_page(TWIN._replace(outputs=b"x" * 2 * PAGE_BYTES)) == 1


def test_each_takes_only_what_is_young_enough() -> None:
    early, late = join(reuse_seconds=0.0), join(reuse_seconds=0.0, created_at=NOW + timedelta(seconds=1))
    assert choose_takers(TWIN, [early, late], {("1", LOAD)}, NOW) == [Taker(finish(early, TWIN, NOW), TWIN)]
    assert choose_takers(TWIN, [early], (), NOW) == []
    assert choose_takers(None, [early], {("1", LOAD)}, NOW) == []
    assert choose_takers(TWIN._replace(state=None), [early], {("1", LOAD)}, NOW) == []


def test_the_oldest_becomes_the_twin_with_the_highest_priority() -> None:
    joiners = [join(priority=each) for each in (Priority.LOW, Priority.HIGH, Priority.NORMAL)]
    assert promote_first(TWIN, joiners) == (joiners[0].id, TWIN.job_id, Priority.HIGH, 3)
    assert promote_first(None, joiners[:1]) == (joiners[0].id, None, Priority.LOW, 0)


@pytest.mark.parametrize("is_large", [False, True])
def test_who_takes_a_result_has_an_event_of_its_own(*, is_large: bool) -> None:
    twin = TWIN._replace(outputs=None) if is_large else TWIN
    job = finish(join(model="other", error_code="timeout"), twin, NOW)
    end = end_taker(Taker(job, twin), JobUrls())
    assert (end.id, end.twin, end.claim, end.finished_at) == (job.id, TWIN.job_id, 3, NOW)
    data = json.loads(end.event.body)["data"]
    assert (data["id"], data["status"], data["metadata"]) == (ids.encode(ids.Kind.JOB, job.id), "succeeded", {"own": 1})
    assert (data["model"], data["version"], data["error"]) == ("echo", "1", None)
    assert data["reused_from"] == ids.encode(ids.Kind.JOB, TWIN.job_id)
    assert data["outputs"] == (None if is_large else [1])
    assert data.get("outputs_omitted") == ("too_large" if is_large else None)
