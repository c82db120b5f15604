"""Results are remembered while they are few and young."""

from datetime import timedelta

import pytest

from common import ids
from common.job_states import Status
from common.reuse.key import ReuseKey
from services.gateway.jobs.reuse import remembered
from services.gateway.jobs.reuse.remembered import MAX_SECONDS, RememberedResults, measure
from tests.unit.clock import Clock
from tests.unit.dispatcher.reuse.test_takers import NOW, STATE, TWIN

FIRST, SECOND, THIRD = (ReuseKey(ids.new(), bytes([number])) for number in range(3))


def test_a_result_is_found_at_the_time_of_the_look() -> None:
    clock = Clock()
    results = RememberedResults(clock)
    results.note(FIRST, TWIN)
    clock.now += MAX_SECONDS
    assert results.find(FIRST) == TWIN._replace(at=NOW + timedelta(seconds=MAX_SECONDS))
    assert results.find(SECOND) is None
    clock.now += 0.1
    assert results.find(FIRST) is None


@pytest.mark.parametrize("twin", [TWIN._replace(state=None), TWIN._replace(state=STATE._replace(status=Status.FAILED))])
def test_only_results_are_remembered(twin: object) -> None:
    results = RememberedResults(Clock())
    results.note(FIRST, TWIN)
    results.note(FIRST, twin)  # type: ignore[arg-type]
    assert results.find(FIRST) is None


def test_what_nobody_asks_for_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MAX_BYTES", 2 * measure(TWIN))
    results = RememberedResults(Clock())
    for key in (FIRST, SECOND, SECOND):
        results.note(key, TWIN)
    assert results.find(FIRST) is not None
    results.note(THIRD, TWIN)
    assert [results.find(key) is not None for key in (FIRST, SECOND, THIRD)] == [True, False, True]
    results.note(FIRST, TWIN._replace(outputs=bytes(3 * measure(TWIN))))
    assert [results.find(key) for key in (FIRST, SECOND, THIRD)] == [None, None, None]
