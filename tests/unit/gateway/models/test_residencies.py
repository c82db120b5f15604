"""Which Triton counts for a model, and how much memory all of them have."""

from datetime import UTC, datetime, timedelta

import pytest

from services.gateway.models.residencies import MemoryUse, add_up, choose_best
from services.gateway.models.store import Residency, ResidencyState

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def make(
    server: str, state: ResidencyState = "absent", *, model: str = "echo", memory: int | None = 100, seconds: int = 0
) -> Residency:
    """Return a model that can run in some seconds. 0: it is not known when."""
    expected_at = NOW + timedelta(seconds=seconds) if seconds else None
    return Residency(server=server, model=model, state=state, memory=memory, expected_at=expected_at, budget=1000)


@pytest.mark.parametrize(
    ("best", "other"),
    [
        (make("b", "resident"), make("a", "loading", seconds=1)),
        (make("b", "loading"), make("a", "absent", seconds=1)),
        (make("b", "absent", seconds=1), make("a", "draining", seconds=2)),
        (make("b", "draining", seconds=1), make("a", "absent", seconds=2)),
        (make("b", "absent", seconds=1), make("a", "absent")),
        (make("b", "draining"), make("a", "absent")),
        (make("a"), make("b")),
    ],
)
def test_a_model_is_as_the_triton_has_it_where_a_job_starts_first(best: Residency, other: Residency) -> None:
    stranger = make("a", model="other")
    for found in ([best, other, stranger], [other, stranger, best]):
        assert choose_best(found) == {"echo": best, "other": stranger}


def test_memory_of_all_tritons_is_added_up() -> None:
    found = [
        make("a", "resident", memory=1),
        make("a", "draining", memory=20, model="other"),
        make("b", "loading", memory=300),
        make("b", "absent", memory=4000, model="other"),
        make("b", "resident", memory=None, model="unknown"),
    ]
    assert add_up(found) == MemoryUse(321, 2000)
    assert add_up([]) is None
