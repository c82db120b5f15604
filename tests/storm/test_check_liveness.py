"""The checker reports what is slower, idle or reloaded without a cause, and nothing else."""

from collections.abc import Sequence

import pytest

from tests.storm.check_liveness import check_latency, check_liveness, check_progress, check_reloads, check_slots
from tests.storm.storm_log import Fault, ModelEvent, RoundTrip, SlotSample, StormLog

BEGAN, ENDED, SETTLED = 1000.0, 1005.0, 1030.0
KILL = Fault("kill", "triton", "triton-1", 4711, BEGAN, ENDED, started=1002.0)
OTHER_KILL = Fault("kill", "triton", "triton-2", 4712, 1100.0, 1105.0, started=1102.0)
WAITING, FREE = {"echo": ["job_7"]}, {"echo", "work"}
STALL = ModelEvent(1010.0, "triton-1", "model.quarantined", "work", "process")
UNLOAD = ModelEvent(1012.0, "triton-1", "model.unloaded", "work")


def find_latency_rules(
    before: Sequence[float | None], after: Sequence[float | None], began: float = ENDED + 10
) -> list[str]:
    """Return the rules that these round trips break, in seconds, or None without a webhook."""
    log = StormLog(faults=[KILL], settled_at=ENDED + 10)
    for first, trips in ((BEGAN - 100, before), (began, after)):
        for number, seconds in enumerate(trips):
            at = first + number
            trip = RoundTrip(at, accepted=True, ended=None if seconds is None else at + seconds)
            log.round_trips[f"{at}"] = trip
    return [rule for _, rule, _, _ in check_latency(log)]


def test_median_may_be_twice_what_it_was() -> None:
    assert find_latency_rules([0.03] * 20, [0.06] * 20) == []
    assert find_latency_rules([0.03] * 20, [0.061] * 20) == ["the latency returns"]
    assert find_latency_rules([0.03] * 20, [0.03] * 11 + [9.0] * 9) == []


def test_webhooks_that_do_not_come_are_slow() -> None:
    assert find_latency_rules([0.03] * 20, [0.03] * 9 + [None] * 11) == ["the latency returns"]


def test_what_comes_before_the_effects_are_over_is_not_measured() -> None:
    assert find_latency_rules([0.03] * 20, [9.0] * 10 + [0.03] * 20, ENDED) == []


def test_too_few_jobs_measure_nothing() -> None:
    assert find_latency_rules([0.03] * 20, [0.03] * 19) == ["the latency is measured"]
    assert find_latency_rules([0.03] * 19, [0.03] * 20) == ["the latency is measured"]


def test_storm_without_faults_measures_nothing() -> None:
    assert list(check_liveness(StormLog())) == []


@pytest.mark.parametrize(
    ("at", "waiting", "free", "idles"),
    [
        (900.0, WAITING, [FREE] * 5, True),
        (900.0, WAITING, [FREE, FREE, FREE, FREE, {"work"}], False),  # what is shown may be a second old
        (900.0, WAITING, [{"work"}, FREE, FREE, FREE, FREE], False),
        (900.0, {}, [FREE] * 5, False),
        (900.0, {"ocr": ["job_8"]}, [FREE] * 5, False),
        (999.0, WAITING, [FREE] * 5, False),  # the fault begins meanwhile
        (ENDED + 9.0, WAITING, [FREE] * 5, False),
        (ENDED + 10.5, WAITING, [FREE] * 5, False),
        (SETTLED, WAITING, [FREE] * 5, True),
    ],
)
def test_slot_idles_while_a_job_waits(
    at: float, waiting: dict[str, list[str]], free: list[set[str]], idles: bool
) -> None:
    samples = [SlotSample(at + number / 2, {}, each) for number, each in enumerate(free)]
    samples[2] = SlotSample(at + 1.0, waiting, free[2])
    assert [rule for _, rule, _, _ in check_slots(samples, [KILL], SETTLED)] == ["no slot idles"] * idles


@pytest.mark.parametrize(
    ("at", "standing", "stands"),
    [
        (900.0, [{"job_7"}] * 5, True),
        (900.0, [{"job_7"}] * 4 + [{"job_8"}], False),  # it went on
        (900.0, [set()] * 5, False),
        (999.0, [{"job_7"}] * 5, False),  # the fault begins meanwhile
        (ENDED + 10.5, [{"job_7"}] * 5, False),
        (SETTLED, [{"job_7"}] * 5, True),
    ],
)
def test_run_stands_still_although_nothing_of_it_waits_or_runs(
    at: float, standing: list[set[str]], stands: bool
) -> None:
    samples = [SlotSample(at + number / 2, {}, set(), frozenset(each)) for number, each in enumerate(standing)]
    found = [rule for _, rule, _, _ in check_progress(samples, [KILL], SETTLED)]
    assert found == ["no run stands still"] * stands


@pytest.mark.parametrize(
    ("events", "healthy"),
    [
        ([STALL, UNLOAD], False),
        ([ModelEvent(1010.0, "triton-1", "model.draining", "work"), UNLOAD], False),
        ([ModelEvent(1001.0, "triton-1", "model.draining", "work"), UNLOAD], True),
        ([UNLOAD], True),
        ([STALL, UNLOAD, UNLOAD], True),  # it was loaded since
        ([STALL, ModelEvent(1011.0, "triton-1", "model.loaded", "work"), UNLOAD], True),
        ([ModelEvent(1001.0, "triton-1", "model.quarantined", "work", "process"), UNLOAD], True),  # an earlier start
        ([ModelEvent(1010.0, "triton-1", "model.quarantined", "work", "shared"), UNLOAD], True),  # hearsay
        ([ModelEvent(1010.0, "triton-1", "model.quarantined", "echo", "process"), UNLOAD], True),
        ([ModelEvent(1010.0, "triton-2", "model.quarantined", "work", "process"), UNLOAD], True),
        ([ModelEvent(1010.0, "triton-1", "model.loaded", "work")], False),
    ],
)
def test_only_models_that_stalled_are_reloaded(events: list[ModelEvent], healthy: bool) -> None:
    found = [rule for _, rule, _, _ in check_reloads(events, [KILL, OTHER_KILL])]
    assert found == ["no healthy model is reloaded"] * healthy
