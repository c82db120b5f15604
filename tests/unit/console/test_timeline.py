"""What happened to a job, in order."""

from typing import Any

from tests.unit.console.conftest import CallJs

FAILED = {"code": "timeout", "message": "it took too long", "retryable": True}


def event(second: int, kind: str, **data: object) -> dict[str, Any]:
    return {"type": f"job.{kind}", "timestamp": f"2027-01-15T08:00:{second:02}.000Z", "data": {"error": None} | data}


RETRIED = [
    event(0, "queued"),
    event(2, "started", attempt=1, model="echo"),
    event(5, "queued", error=FAILED),
    event(9, "started", attempt=2, model="echo"),
    event(10, "succeeded"),
]


async def test_phases_of_a_job_that_ran_twice(call_js: CallJs) -> None:
    phases = await call_js("timeline.js", "listPhases", RETRIED, 0)
    assert [(each["kind"], (each["to"] - each["from"]) / 1_000) for each in phases] == [
        ("waited", 2),
        ("ran", 3),
        ("waited", 4),
        ("ran", 1),
    ]


async def test_last_phase_of_a_job_that_runs_lasts_until_now(call_js: CallJs) -> None:
    (began,) = [each["from"] for each in await call_js("timeline.js", "listPhases", RETRIED[:1], 0)]
    phases = await call_js("timeline.js", "listPhases", RETRIED[:2], began + 7_000)
    assert [each["to"] - each["from"] for each in phases] == [2_000, 5_000]
    (behind,) = await call_js("timeline.js", "listPhases", RETRIED[:1], began - 60_000)  # a clock that is behind
    assert behind["to"] == behind["from"]


async def test_entries_are_in_order_of_time_with_what_failed(call_js: CallJs) -> None:
    attempt = {
        "number": 1,
        "started_at": "2027-01-15T08:00:07Z",
        "duration_ms": 12,
        "status_code": 500,
        "error": {"code": "http_status", "message": "the receiver answered 500"},
        "response": "",
    }
    url = "https://receiver.example/" + "x" * 2_000
    delivery = {"id": "dlv_x", "event_type": "job.started", "url": url, "attempts": [attempt]}
    entries = await call_js("timeline.js", "listEntries", RETRIED, [delivery])
    titles = [each["title"] for each in entries]
    assert titles[0] == "Submitted"
    assert titles[-1] == "Succeeded"
    assert titles[3].startswith("Webhook job.started failed")
    assert "timeout: it took too long" in entries[2]["detail"]
    assert "500" in entries[3]["detail"]
    assert len(entries[3]["detail"]) < 200
    assert [each["at"] for each in entries] == sorted(each["at"] for each in entries)


async def test_outputs_of_a_stream_are_one_entry(call_js: CallJs) -> None:
    events = [*RETRIED[:2], *(event(3, "output", outputs=[]) for _ in range(500)), event(4, "succeeded")]
    titles = [each["title"] for each in await call_js("timeline.js", "listEntries", events, [])]
    assert titles[2:] == ["500 outputs", "Succeeded"]


async def test_unknown_event_is_named(call_js: CallJs) -> None:
    (entry,) = await call_js("timeline.js", "listEntries", [event(0, "polished")], [])
    assert entry["title"] == "job.polished"


async def test_a_run_has_no_attempts(call_js: CallJs) -> None:
    step = event(1, "started", step="lines", total=1) | {"type": "step.started"}
    start = event(1, "started", attempt=1, model="read-page")
    run = [event(0, "queued"), start, step, event(2, "failed", error=FAILED), event(3, "queued"), start]
    took = {"worker": "pipeline", "duration_ms": 1000, "count": 1, "finished_at": run[3]["timestamp"]}
    entries = await call_js("timeline.js", "listEntries", run, [], [took])
    assert [each["title"] for each in entries if each["tone"] == "busy"] == [
        "The run began",
        "Step lines began",
        "The run goes on",
    ]
    (failed,) = [each["detail"] for each in entries if each["title"] == "Failed"]
    assert "took" in failed
    assert " on " not in failed


async def test_the_ends_of_a_step_are_one_entry(call_js: CallJs) -> None:
    def step(second: int, kind: str, **data: object) -> dict[str, Any]:
        return event(second, kind, **data) | {"type": f"step.{kind}"}

    run = [event(0, "queued"), step(1, "started", step="lines", total=3)]
    run += [step(2 + number, "succeeded", step="lines", job=f"job_{number}") for number in range(3)]
    for ends, title in ((3, "Step lines succeeded"), (2, "Step lines: 2 of 3 jobs succeeded")):
        entries = await call_js("timeline.js", "listEntries", run[: 2 + ends], [])
        assert [each["title"] for each in entries] == ["Submitted", "Step lines began", title]
