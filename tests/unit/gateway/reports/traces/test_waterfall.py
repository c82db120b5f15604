"""Spans from rows, and their text."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from common import ids
from common.job_states import Status
from common.views.delivery import AttemptRow, DeliveryRow
from services.gateway.reports.traces.routes import view_trace
from services.gateway.reports.traces.store import Run, TracedJob
from services.gateway.reports.traces.text import write_text
from services.gateway.reports.traces.waterfall import make_spans, show_origin
from tests.unit.gateway.samples import NOW, ROW

Line = tuple[str, str, float, float | None, int, bool]


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def run(attempt: int, begin: float, end: float | None, **changes: Any) -> Run:
    values: dict[str, Any] = {
        "attempt": attempt,
        "count": 1,
        "model": "echo",
        "worker": "w",
        "due_at": NOW,
        "started_at": after(begin),
        "finished_at": None if end is None else after(end),
        "status": "processing" if end is None else "failed",
        "error_code": None if end is None else "timeout",
        "is_first": attempt == 1,
        "retried_at": None,
    }
    return Run(**values | changes)


def draw(runs: list[Run], *, retried_at: datetime | None = None, **changes: Any) -> list[Line]:
    """Return the spans below the job, with their times in seconds."""
    job = TracedJob(msgspec.structs.replace(ROW, **changes), retried_at)
    return [
        (
            span.service,
            span.name,
            (span.begin - NOW).total_seconds(),
            None if span.end is None else (span.end - NOW).total_seconds(),
            span.depth,
            span.failed,
        )
        for span in make_spans(job, runs, [], [])[2:]
    ]


def test_a_job_that_waits() -> None:
    assert draw([]) == [("dispatcher", "queued", 0.0, None, 1, False)]


def test_a_scheduled_job() -> None:
    waiting = draw([], run_at=after(5), scheduled_at=after(5))
    assert waiting == [("gateway", "scheduled", 0.0, None, 1, False)]
    lines = [("gateway", "scheduled", 0.0, 5.0, 1, False), ("dispatcher", "queued", 5.0, None, 1, False)]
    assert draw([], run_at=after(5)) == lines
    canceled = draw([], run_at=after(5), status=Status.CANCELED, finished_at=after(2))
    assert canceled == [("gateway", "scheduled", 0.0, 2.0, 1, False)]


def test_a_job_that_runs_for_the_second_time() -> None:
    assert draw([run(1, 1, 3), run(2, 8, None, due_at=after(7))], run_at=after(7), status=Status.PROCESSING) == [
        ("dispatcher", "queued", 0.0, 1.0, 1, False),
        ("dispatcher", "attempt 1", 1.0, 3.0, 1, True),
        ("gateway", "backing off", 3.0, 7.0, 1, False),
        ("dispatcher", "queued", 7.0, 8.0, 1, False),
        ("dispatcher", "attempt 2", 8.0, None, 1, False),
    ]


def test_a_requeue_does_not_change_the_waits_before() -> None:
    """`run_at` of the job is that of the next attempt."""
    waits = [
        ("dispatcher", "queued", 0.0, 5.5, 1, False),
        ("dispatcher", "attempt 1", 5.5, 6.0, 1, True),
        ("gateway", "backing off", 6.0, None, 1, False),
    ]
    assert draw([run(1, 5.5, 6)], run_at=after(46), scheduled_at=after(46)) == waits
    scheduled = draw([run(1, 5.5, 6, due_at=after(5))], run_at=after(46), scheduled_at=after(46))
    assert [line[1] for line in scheduled] == ["scheduled", "queued", "attempt 1", "backing off"]
    again = draw([run(1, 5.5, 6), run(2, 47, 48, due_at=after(46))], run_at=after(128), scheduled_at=after(128))
    assert again[2:4] == [
        ("gateway", "backing off", 6.0, 46.0, 1, False),
        ("dispatcher", "queued", 46.0, 47.0, 1, False),
    ]


def test_an_inference_is_part_of_the_latest_attempt() -> None:
    succeeded = run(1, 1, 3, status="succeeded", error_code=None)
    assert draw([succeeded], status=Status.SUCCEEDED, finished_at=after(3), inference_ms=1500.0) == [
        ("dispatcher", "queued", 0.0, 1.0, 1, False),
        ("dispatcher", "attempt 1", 1.0, 3.0, 1, False),
        ("triton", "infer echo", 1.0, 2.5, 2, False),
    ]


def test_refused_attempts_in_a_row_are_one_span_and_a_fallback_is_named() -> None:
    runs = [run(1, 1, 3, count=7), run(2, 4, 5, model="small", due_at=after(3))]
    assert [line[1] for line in draw(runs, run_at=after(3), status=Status.FAILED, finished_at=after(5))] == [
        "queued",
        "attempt 1 × 7",
        "queued",
        "attempt 2 on small",
    ]


def test_a_job_that_ended_in_the_queue_after_an_attempt() -> None:
    lines = draw([run(1, 1, 3)], run_at=after(9), status=Status.CANCELED, finished_at=after(5))
    assert lines[2:] == [("gateway", "backing off", 3.0, 5.0, 1, False)]


def test_the_time_before_a_retry_is_no_wait() -> None:
    lines = draw([run(1, 1, 3), run(1, 62, None, due_at=after(60), retried_at=after(60), is_first=False)])
    assert lines[2:] == [
        ("dispatcher", "queued", 60.0, 62.0, 1, False),
        ("dispatcher", "attempt 1", 62.0, None, 1, False),
    ]
    waiting = draw([run(1, 1, 3)], run_at=after(60), retried_at=after(60))
    assert waiting[2:] == [("dispatcher", "queued", 60.0, None, 1, False)]


def test_without_the_first_attempts_the_wait_before_is_unknown() -> None:
    lines = draw([run(50, 100, 101), run(51, 103, None, due_at=after(102))])
    assert [line[1] for line in lines] == ["attempt 50", "backing off", "queued", "attempt 51"]


def test_text_has_the_columns_of_the_demo() -> None:
    succeeded = run(1, 0.012, 0.66, status="succeeded", error_code=None)
    delivery = DeliveryRow(
        id=ids.new(),
        event_id=ids.new(),
        event_type="job.succeeded",
        job_id=ROW.id,
        webhook_id=None,
        url="https://user:secret@receiver.example:8443/path?token=secret",
        status="pending",
        created_at=after(0.66),
        next_at=after(60),
        finished_at=None,
    )
    attempt = AttemptRow(
        delivery_id=delivery.id,
        number=1,
        started_at=after(0.67),
        duration_ms=7.25,
        status_code=503,
        error="http_status",
        response=b"",
    )
    job = msgspec.structs.replace(ROW, status=Status.SUCCEEDED, finished_at=after(0.66), inference_ms=640.0)
    spans = make_spans(TracedJob(job, None), [succeeded], [delivery], [attempt])
    text = write_text(view_trace(job, spans, truncated=True))
    head, *lines = text.replace(ids.encode(ids.Kind.JOB, ROW.id), "JOB").splitlines()
    assert head.endswith(" of JOB: succeeded")
    assert lines == [
        "",
        "            at            took  service     span",
        "        0.0 ms        660.0 ms  gateway     job echo (succeeded)",
        "        0.0 ms          0.0 ms  gateway       accepted",
        "        0.0 ms         12.0 ms  dispatcher    queued",
        "       12.0 ms        648.0 ms  dispatcher    attempt 1 (succeeded, w)",
        "       12.0 ms        640.0 ms  triton          infer echo",
        "      660.0 ms               …  notifier      deliver job.succeeded (pending)",
        "      670.0 ms          7.2 ms  notifier        POST https://receiver.example:8443 (503, http_status)",
        "",
        "Only the latest attempts and deliveries are shown.",
    ]


def test_an_origin_has_no_secrets() -> None:
    assert show_origin("https://user:pass@[::1]:9/a?b=c#d") == "https://[::1]:9"
