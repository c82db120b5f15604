"""The metrics by which alerts tell a model that waits for its load from one that cannot be loaded."""

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
