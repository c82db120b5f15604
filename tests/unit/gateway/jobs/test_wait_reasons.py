"""What a job is told that waits for its model to be loaded."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.gateway.jobs.wait_reasons import explain_absence, explain_load
from services.gateway.models.store import Residency, Workload

NOW = datetime(2026, 11, 29, tzinfo=UTC)
WHY = "It waits for the loads before it."


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def make(state: Any, **values: Any) -> Residency:
    return Residency(server="a", model="echo", state=state, budget=1000, **values)


@pytest.mark.parametrize(
    ("residency", "detail"),
    [
        (make("loading", place=1, expected_at=after(3.2)), "Triton is loading the model, and can probably run in 4 s"),
        (make("loading", place=1, expected_at=after(-1)), "Triton is loading the model"),
        (
            make("absent", place=2, expected_at=after(130), why=WHY),
            "the model is not loaded; it is number 2 of those to be loaded, and can probably run in 3 min. "
            "It waits for the loads before it",
        ),
        (
            make("absent", place=1, why="Its last load failed. It is tried again later.", reason="no room"),
            "the model is not loaded; it is number 1 of those to be loaded. "
            "Its last load failed. It is tried again later. The reason: no room",
        ),
        (make("absent"), "the model is not loaded"),
        (
            make("draining", place=1, expected_at=after(5)),
            "the model is being unloaded; it is number 1 of those to be loaded, and can probably run in 5 s",
        ),
        (make("resident", loaded_at=after(-3)), "Triton has just loaded the model, and its jobs start soon"),
        (make("resident", loaded_at=after(-30)), None),
        (make("resident"), None),
    ],
)
def test_the_state_the_place_and_the_estimate_are_said(residency: Residency, detail: str | None) -> None:
    assert explain_load(residency, NOW) == detail


@pytest.mark.parametrize(
    ("residency", "slots", "has_dispatcher", "code"),
    [
        (make("absent"), 0, True, "model_loading"),
        (make("absent", is_led=False), 0, True, "triton"),
        (make("absent"), 2, True, None),
        (make("absent"), 0, False, "dispatcher"),
        (make("resident"), 0, True, "triton"),
        (None, 0, True, "triton"),
    ],
)
def test_a_model_that_triton_may_load_is_not_away(
    residency: Residency | None, slots: int, has_dispatcher: bool, code: str | None
) -> None:
    workload = Workload(model="echo", has_dispatcher=has_dispatcher, slots=slots, seen_at=None)
    waiting_for = explain_absence(workload, residency, NOW)
    assert (waiting_for.code if waiting_for else None) == code
