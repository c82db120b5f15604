"""When the steps of a run began and ended."""

from typing import Any

from tests.unit.console.conftest import CallJs


def event(second: int, kind: str, step: str) -> dict[str, Any]:
    return {"type": kind, "timestamp": f"2027-01-15T08:00:{second:02}.000Z", "data": {"step": step}}


async def test_a_step_lasts_until_its_last_job_ends(call_js: CallJs) -> None:
    events = [event(1, "step.started", "read"), event(3, "step.succeeded", "read"), event(3, "step.started", "lines")]
    events += [event(5, "step.succeeded", "lines"), event(6, "step.succeeded", "lines"), event(6, "job.output", "x")]
    for status, took in (("succeeded", 3_000), ("running", None)):
        steps = {"read": {"status": "succeeded"}, "lines": {"status": status}}
        found = await call_js("step_times.js", "timeSteps", events, steps)
        assert {name: time["to"] and time["to"] - time["from"] for name, time in found.items()} == {
            "read": 2_000,
            "lines": took,
        }
