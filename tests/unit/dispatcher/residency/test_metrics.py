"""The metrics of what a Triton holds."""

import pytest
from prometheus_client import REGISTRY

from services.dispatcher.residency import metrics
from services.dispatcher.residency.state import Phase
from services.dispatcher.residency.store import Residency


@pytest.mark.parametrize(
    ("phase", "reason", "failing"),
    [(Phase.ABSENT, None, 0), (Phase.ABSENT, "no room", 1), (Phase.LOADING, "no room", 0), (Phase.RESIDENT, None, 0)],
)
def test_only_a_model_that_cannot_be_loaded_is_failing(phase: Phase, reason: str | None, failing: int) -> None:
    row = Residency(name="ocr", changed_at=0.0, phase=phase, reason=reason)
    metrics.note_change(Residency(name="ocr", changed_at=0.0), row, is_own=True)
    assert REGISTRY.get_sample_value("charonia_model_load_failing", {"model": "ocr"}) == failing
    metrics.forget()
    assert REGISTRY.get_sample_value("charonia_model_load_failing", {"model": "ocr"}) is None


def test_a_reload_after_a_quarantine_counts_as_a_swap() -> None:
    before = REGISTRY.get_sample_value("charonia_model_swaps_total", {"model": "stalled"}) or 0
    metrics.note_reload("stalled")
    assert REGISTRY.get_sample_value("charonia_model_swaps_total", {"model": "stalled"}) == before + 1
