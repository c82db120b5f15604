"""The history of a job says which dispatcher ran each attempt, and for how long."""

from typing import Any

from tests.unit.console.conftest import CallJs

FAILED = {"code": "timeout", "message": "it took too long", "retryable": True}


def event(second: int, kind: str, **data: object) -> dict[str, Any]:
    return {"type": f"job.{kind}", "timestamp": f"2027-01-15T08:00:{second:02}.000Z", "data": {"error": None} | data}


def attempt(second: int, status: str, count: int = 1) -> dict[str, Any]:
    end = f"2027-01-15T08:00:{second:02}.000Z"
    return {"finished_at": end, "worker": "worker-a", "duration_ms": 3_000, "status": status, "count": count}


async def test_end_of_an_attempt_names_its_worker(call_js: CallJs) -> None:
    events = [event(0, "queued"), event(2, "started", attempt=1), event(5, "failed", error=FAILED)]
    entries = await call_js("timeline.js", "listEntries", events, [], [attempt(5, "failed")])
    assert entries[-1]["detail"] == "timeout: it took too long · ran 3.0 s on worker-a"


async def test_attempt_that_was_given_back_does_not_count(call_js: CallJs) -> None:
    events = [event(0, "queued"), event(2, "started", attempt=1), event(5, "queued", attempt=1, error=FAILED)]
    entries = await call_js("timeline.js", "listEntries", events, [], [attempt(5, "returned", count=12)])
    assert entries[-1]["title"] == "The attempt does not count; the job waits again"
    assert entries[-1]["detail"].endswith("on worker-a, 12 times in a row")


async def test_second_submit_is_a_retry(call_js: CallJs) -> None:
    events = [event(0, "queued"), event(1, "canceled"), event(9, "queued")]
    entries = await call_js("timeline.js", "listEntries", events, [])
    assert [each["title"] for each in entries] == ["Submitted", "Canceled", "Retried: waits again"]
