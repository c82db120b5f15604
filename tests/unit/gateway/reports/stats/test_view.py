"""The numbers of a tenant as the API shows them."""

from datetime import UTC, datetime

import msgspec

from common.job_states import Priority
from services.gateway.reports.stats.reader import Stats
from services.gateway.reports.stats.routes import view_stats
from services.gateway.reports.stats.store import Ended, Queue, Waiting

AT = datetime(2026, 11, 22, tzinfo=UTC)
HIGH, LOW = Queue("echo", Priority.HIGH), Queue("echo", Priority.LOW)
OCR = Queue("ocr", Priority.NORMAL)
NONE = {"p50": None, "p95": None}


def test_every_queue_has_all_numbers_in_order() -> None:
    ended = {
        (LOW, 5): Ended(120.0, 30, 3, 5, 2, [1.4, 2.6], [10.0, 20.0]),
        (LOW, 60): Ended(120.0, 30, 3, 5, 2, None, None),
    }
    shown = msgspec.to_builtins(view_stats(Stats(AT, {OCR: Waiting(2, 1, AT)}, {HIGH: 4}, ended)))
    assert shown["at"] == "2026-11-22T00:00:00.000Z"
    assert [(each["model"], each["priority"]) for each in shown["items"]] == [
        ("echo", "high"),
        ("echo", "low"),
        ("ocr", "normal"),
    ]
    high, low, ocr = shown["items"]
    assert (high["waiting"], high["running"], high["oldest_waiting_at"]) == (0, 4, None)
    assert (ocr["waiting"], ocr["scheduled"], ocr["oldest_waiting_at"]) == (2, 1, shown["at"])
    assert low["last_5_minutes"] == {
        "seconds": 120.0,
        "ended": 30,
        "failed": 3,
        "hits": 5,
        "joins": 2,
        "ended_per_minute": 15.0,
        "failed_per_minute": 1.5,
        "queue_ms": {"p50": 1, "p95": 3},
        "inference_ms": {"p50": 10, "p95": 20},
    }
    assert low["last_60_minutes"]["queue_ms"] == NONE
    assert high["last_5_minutes"] | {"queue_ms": NONE} == {
        "seconds": 120.0,
        "ended": 0,
        "failed": 0,
        "hits": 0,
        "joins": 0,
        "ended_per_minute": 0.0,
        "failed_per_minute": 0.0,
        "queue_ms": NONE,
        "inference_ms": NONE,
    }


def test_a_tenant_without_jobs_has_no_queues() -> None:
    assert view_stats(Stats(AT, {}, {}, {})).items == []
