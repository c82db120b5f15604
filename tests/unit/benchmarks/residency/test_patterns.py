"""The jobs that arrive are the same at each call, and of the models that a pattern has."""

from collections import Counter
from itertools import groupby

from benchmarks.residency.patterns import (
    ALTERNATING,
    BURST,
    CHANGE_SECONDS,
    MODELS,
    PATTERNS,
    list_arrivals,
    name_model,
)

SECONDS = 300.0


def test_each_pattern_repeats_itself_and_ends() -> None:
    for pattern in PATTERNS:
        arrivals = list_arrivals(pattern, SECONDS)
        assert arrivals == list_arrivals(pattern, SECONDS)
        assert [each.at for each in arrivals] == sorted(each.at for each in arrivals)
        assert 0.98 * SECONDS < arrivals[-1].at < SECONDS
        assert {each.model for each in arrivals} <= {name_model(number) for number in range(MODELS)}


def test_models_have_the_shares_of_the_pattern() -> None:
    counts = Counter(each.model for each in list_arrivals("zipf", SECONDS))
    assert 1.5 < counts["m00"] / counts["m01"] < 2.7
    uniform = Counter(each.model for each in list_arrivals("uniform", SECONDS))
    assert max(uniform.values()) < 2 * min(uniform.values())


def test_bursts_alternate_and_then_are_of_other_models() -> None:
    arrivals = list_arrivals("bursts", SECONDS)
    for _, part in groupby(arrivals, key=lambda each: each.at // CHANGE_SECONDS):
        models = [each.model for each in part]
        bursts = [(name, len([*burst])) for name, burst in groupby(models)]
        assert {size for _, size in bursts} == {BURST}
        assert len({name for name, _ in bursts}) == ALTERNATING
        assert bursts[0] == bursts[ALTERNATING]
