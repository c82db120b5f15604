"""The schedule has every fault, is the same for a seed, and begins with kills and partitions."""

from itertools import islice

from tests.cluster_storm.server_faults import FAULTS, FIRST, GAP_SECONDS, SECONDS, ServerFault, plan


def take(seed: int, count: int) -> list[ServerFault]:
    return list(islice(plan(seed), count))


def test_each_round_has_every_fault_once() -> None:
    faults = take(1, 2 * len(FAULTS))
    for part in (faults[: len(FAULTS)], faults[len(FAULTS) :]):
        assert sorted((each.action, each.target) for each in part) == sorted(FAULTS)


def test_round_begins_with_kills_and_partitions() -> None:
    begins = {each.name for each in take(3, FIRST)}
    assert begins == {"kill primary", "kill broker", "partition primary", "partition broker", "partition services"}


def test_seed_repeats_a_schedule() -> None:
    assert take(7, 40) == take(7, 40)
    assert take(7, 40) != take(8, 40)


def test_times_are_within_their_limits() -> None:
    for each in take(5, 100):
        lowest, highest = SECONDS[each.action]
        assert lowest <= each.duration <= highest
        assert GAP_SECONDS[0] <= each.gap <= GAP_SECONDS[1]
