"""The rule of residency, clause by clause."""

import pytest

from common.job_states import Priority
from services.dispatcher.residency.rule import Action, Drain, Load, Model, Phase, State, plan
from tests.support.residency.models import MAX_WAIT, NOW, absent, overdue, resident, state

BUSY = [resident(name, waiting=50, waited=5.0) for name in ("v1", "v2", "v3")]
"""Their turns are over, but their jobs are worth more than a swap."""
SERVING = [resident(name, loaded=100.0, waiting=50, waited=200.0) for name in ("v1", "v2", "v3")]
"""Jobs that came before their loads still wait."""


def act(state: State) -> list[Action]:
    return [*plan(state).actions]


def test_a_wanted_model_takes_free_room() -> None:
    assert act(state(resident("v1"), absent("a"))) == [Load("a")]


def test_a_model_without_jobs_is_not_loaded() -> None:
    assert act(state(absent("a", waiting=0))) == []


def test_loads_are_one_at_a_time_and_nothing_drains_meanwhile() -> None:
    loading = absent("a")._replace(phase=Phase.LOADING)
    assert act(state(absent("b"), absent("c"))) == [Load("b")]
    assert act(state(loading, absent("b"))) == []
    assert act(state(loading, resident("v1"), resident("v2"), overdue("b"))) == []


def test_a_load_waits_for_a_drain_without_a_second_drain() -> None:
    draining = resident("v1")._replace(phase=Phase.DRAINING, running=1)
    assert act(state(draining, resident("v2"), resident("v3"), absent("a"))) == []


def test_nobody_waits_for_a_drain_that_does_not_end() -> None:
    stuck = resident("v1")._replace(phase=Phase.DRAINING, is_frozen=True)
    assert act(state(stuck, resident("v2"), resident("v3"), absent("a"))) == [Drain("v2", "a")]


def test_of_idle_models_the_one_goes_whose_room_is_worth_least() -> None:
    idle = [resident("v1", arrivals=0.002), resident("v2", arrivals=0.0), resident("v3", arrivals=0.001)]
    assert act(state(*idle, absent("a"))) == [Drain("v2", "a")]
    small = resident("v2", arrivals=0.002)._replace(memory=50)
    assert act(state(small, resident("v1", arrivals=0.003), absent("a"), budget=150)) == [Drain("v1", "a")]


def test_of_equal_models_the_least_recently_used_goes() -> None:
    assert act(state(resident("v1", 100.0), resident("v2", 120.0), resident("v3", 110.0), absent("a"))) == [
        Drain("v2", "a")
    ]


def test_no_more_victims_drain_than_are_needed() -> None:
    small, large = resident("v1", 150.0)._replace(memory=10), resident("v2", 100.0)._replace(memory=290)
    assert act(state(small, large, absent("a")._replace(memory=250))) == [Drain("v2", "a")]


def test_an_idle_model_keeps_its_room_for_as_long_as_a_load_takes() -> None:
    others = [resident(name, waiting=50, waited=5.0) for name in ("v2", "v3")]
    for rest, expected in ((1.9, []), (2.0, [Drain("v1", "a")])):
        assert act(state(resident("v1", rest), *others, absent("a"))) == expected


def test_a_popular_model_keeps_its_room_against_few_jobs() -> None:
    popular = [resident(name, arrivals=5.0)._replace(last_used=NOW - 0.1) for name in ("v1", "v2", "v3")]
    # Each works half of the time, and a swap there and back takes 4 s: 2 × 0.5 × 4 s of work, with 0.1 s a job.
    assert act(state(*popular, absent("a", waiting=40))) == []
    assert act(state(*popular, absent("a", waiting=41))) == [Drain("v1", "a")]


def test_an_idle_model_goes_for_any_job_if_it_expects_none_during_the_loads() -> None:
    # Long jobs: without this clause one short job would wait for its bound. Both loads take 4 s.
    others = [resident(name, waiting=50, waited=5.0) for name in ("v2", "v3")]
    for rate, expected in ((0.25, []), (0.24, [Drain("v1", "a")])):
        idle = resident("v1", loaded=3.0, arrivals=rate)._replace(compute_seconds=60.0)
        assert act(state(idle, *others, absent("a"))) == expected


def test_a_busy_model_goes_if_much_more_waits_for_another_one() -> None:
    # 2 × 0.5 × 4 s that it would work during the loads, and 5 s for its jobs, with 0.1 s a job.
    busy = [model._replace(arrivals=5.0) for model in BUSY]
    assert act(state(*busy, absent("a", waiting=90))) == []
    assert act(state(*busy, absent("a", waiting=91))) == [Drain("v1", "a")]


def test_a_busy_model_has_a_turn_of_fifteen_loads() -> None:
    others = [resident(name, loaded=29.0, waiting=50, waited=5.0) for name in ("v2", "v3")]
    for loaded, expected in ((29.9, []), (30.0, [Drain("v1", "a")])):
        busy = resident("v1", loaded=loaded, waiting=50, waited=5.0)
        assert act(state(busy, *others, absent("a", waiting=900))) == expected


def test_jobs_that_waited_for_a_load_are_served_first() -> None:
    assert act(state(*SERVING, absent("a", waiting=1000))) == []
    assert act(state(*SERVING, overdue("a"))) == []
    assert plan(state(*SERVING, overdue("a"))).places["a"].number == 1


def test_a_turn_ends_after_max_wait() -> None:
    served = resident("v2", loaded=MAX_WAIT, waiting=50, waited=MAX_WAIT + 50)
    assert act(state(SERVING[0], served, SERVING[2], overdue("a"))) == [Drain("v2", "a")]


def test_an_overdue_model_needs_no_backlog() -> None:
    fresh = [resident(name, loaded=5.0, waiting=50, waited=1.0) for name in ("v1", "v2", "v3")]
    assert act(state(*fresh, absent("a", waited=MAX_WAIT - 2.1))) == []
    assert act(state(*fresh, absent("a", waited=MAX_WAIT - 2.0))) == [Drain("v1", "a")]


def test_the_wait_for_a_load_begins_when_the_model_is_unloaded() -> None:
    old, rare = overdue("a", 60.0), overdue("b")
    assert act(state(old, rare, budget=100)) == [Load("a")]
    assert act(state(old._replace(left_at=NOW - 1.0), rare, budget=100)) == [Load("b")]
    many = absent("c", waiting=1000, waited=60.0)._replace(left_at=NOW - 1.0)
    assert act(state(many, absent("d", waiting=20, waited=60.0), budget=100)) == [Load("d")]


def test_a_model_that_just_made_room_comes_last_unless_it_is_overdue() -> None:
    other, made = absent("a")._replace(priority=Priority.LOW), absent("b")._replace(priority=Priority.HIGH)
    assert act(state(made._replace(left_at=NOW - 2.0), other, budget=100)) == [Load("b")]
    assert act(state(made._replace(left_at=NOW - 1.9), other, budget=100)) == [Load("a")]
    urgent = made._replace(left_at=NOW - 1.9, deadline=NOW + 2.0)
    assert act(state(urgent, other, budget=100)) == [Load("b")]


def test_a_deadline_makes_a_model_overdue() -> None:
    assert act(state(*BUSY, absent("a")._replace(deadline=NOW + 4.0))) == [Drain("v1", "a")]
    assert act(state(*BUSY, absent("a")._replace(deadline=NOW + 4.1))) == []


def test_a_deadline_that_no_load_can_keep_is_none() -> None:
    assert act(state(*BUSY, absent("a")._replace(deadline=NOW + 2.0))) == [Drain("v1", "a")]
    assert act(state(*BUSY, absent("a")._replace(deadline=NOW + 1.9))) == []
    late = overdue("b")
    assert act(state(late, absent("a")._replace(deadline=NOW + 1.0), budget=100)) == [Load("b")]


def test_a_model_that_never_fits_says_nothing_about_the_others() -> None:
    huge, new = absent("huge")._replace(memory=1000), absent("new", waiting=0)._replace(memory=None, is_known=False)
    assert act(state(resident("v1"), huge, new)) == [Load("new")]


def test_loads_begin_in_time_for_all_that_follow() -> None:
    # Two loads of 2 s must end by the bounds, so the first begins 4 s before them.
    early, late = absent("a", waited=MAX_WAIT - 3.9), absent("b", waited=MAX_WAIT - 3.9)
    assert act(state(*BUSY, early)) == []
    assert act(state(*BUSY, early, late)) == [Drain("v1", "a")]


def test_overdue_models_come_by_their_bounds_and_before_others() -> None:
    high = absent("c", waiting=500)._replace(priority=Priority.HIGH)
    places = plan(state(*BUSY, overdue("a", 1.0), overdue("b", 2.0), high)).places
    assert sorted(places, key=lambda name: places[name].number) == ["b", "a", "c"]


def test_others_come_by_priority_then_by_the_time_that_their_jobs_waited() -> None:
    models = [
        absent("a", waiting=5, waited=10.0)._replace(priority=Priority.NORMAL),
        absent("b", waiting=1, waited=60.0)._replace(priority=Priority.NORMAL),
        absent("c", waiting=1, waited=1.0)._replace(priority=Priority.HIGH),
        absent("d", waiting=900, waited=90.0)._replace(priority=Priority.LOW),
        absent("e", waiting=0)._replace(is_known=False),
    ]
    places = plan(state(*SERVING, *models)).places
    assert sorted(places, key=lambda name: places[name].number) == ["c", "b", "a", "d", "e"]


def test_later_models_do_not_take_the_room_that_an_overdue_one_waits_for() -> None:
    large = overdue("a")._replace(memory=200)
    plan_ = plan(state(*SERVING[:2], large, overdue("b", 0.5), absent("c")))
    assert plan_.actions == []
    assert "a" in plan_.places["b"].why


def test_a_model_that_is_not_overdue_blocks_nobody() -> None:
    large = absent("a", waited=100.0)._replace(memory=200)
    assert act(state(*SERVING[:2], large, absent("b"))) == [Load("b")]


def test_a_kept_model_comes_first_and_stays() -> None:
    kept = absent("k", waiting=0)._replace(keep=True)
    assert act(state(kept, overdue("a"))) == [Load("k")]
    assert act(state(*BUSY, kept)) == [Drain("v1", "k")]
    held = [resident(name)._replace(keep=True) for name in ("v1", "v2")]
    assert act(state(*held, *SERVING[2:], absent("a"), idle=1.0)) == []


def test_the_room_of_a_kept_model_is_not_given_away_while_its_load_failed() -> None:
    kept = absent("k", waiting=0)._replace(keep=True, next_try_at=NOW + 5)
    assert act(state(*SERVING[:2], kept, absent("a"))) == []
    assert act(state(*SERVING[:1], kept, absent("a"))) == [Load("a")]


def test_a_model_rests_after_a_load_that_failed() -> None:
    failed = overdue("a")._replace(next_try_at=NOW + 5)
    plan_ = plan(state(failed, absent("b")))
    assert plan_.actions == [Load("b")]
    assert plan_.places["a"].expected_in == 7.0
    assert act(state(failed._replace(next_try_at=NOW))) == [Load("a")]


@pytest.mark.parametrize("memory", [201, 1000])
def test_a_model_that_does_not_fit_beside_kept_ones_is_not_tried(memory: int) -> None:
    kept = resident("k")._replace(keep=True)
    large = overdue("a")._replace(memory=memory)
    plan_ = plan(state(kept, large, absent("b")))
    assert plan_.actions == [Load("b")]
    assert plan_.places["a"].expected_in is None


def test_a_kept_model_that_is_larger_than_the_budget_takes_no_room() -> None:
    assert act(state(absent("k")._replace(keep=True, memory=301), absent("a"))) == [Load("a")]


def test_frozen_models_take_memory_and_stay() -> None:
    frozen = [model._replace(is_frozen=True) for model in BUSY]
    assert act(state(*frozen[:2], overdue("a"))) == [Load("a")]
    assert act(state(*frozen, overdue("a"), idle=1.0)) == []


def test_a_job_of_unknown_length_counts_as_the_others() -> None:
    # 5 s of work of the victim, and 0.1 s a job.
    assert act(state(*BUSY, absent("a", waiting=49)._replace(compute_seconds=None))) == []
    assert act(state(*BUSY, absent("a", waiting=51)._replace(compute_seconds=None))) == [Drain("v1", "a")]


def test_unknown_memory_counts_as_that_of_the_largest() -> None:
    unknown = absent("a")._replace(memory=None)
    assert act(state(resident("v1"), resident("v2"), unknown)) == [Load("a")]
    assert act(state(resident("v1"), resident("v2")._replace(memory=150), unknown)) == [Drain("v1", "a")]


def test_without_any_known_memory_a_model_has_all_the_room() -> None:
    unknown = absent("a")._replace(memory=None)
    assert act(state(unknown, absent("b")._replace(memory=None))) == [Load("a")]
    assert act(state(resident("v1")._replace(memory=None), unknown)) == [Drain("v1", "a")]


def test_unknown_memory_never_counts_as_too_large() -> None:
    kept = resident("k")._replace(keep=True)
    assert act(state(kept, absent("a")._replace(memory=None), absent("b", waiting=0)._replace(memory=250))) == [
        Load("a")
    ]


def test_an_unseen_model_takes_only_free_room_or_that_of_idle_ones() -> None:
    unseen = absent("a", waiting=0)._replace(is_known=False)
    assert act(state(unseen)) == [Load("a")]
    assert act(state(unseen, *BUSY)) == []
    assert act(state(unseen, resident("v1"), *BUSY[1:])) == [Drain("v1", "a")]
    assert act(state(unseen, absent("b"))) == [Load("b")]
    assert act(state(unseen._replace(since=NOW - MAX_WAIT), *BUSY)) == [Drain("v1", "a")]


def test_an_idle_model_is_unloaded_if_so_set() -> None:
    idle = resident("v1", loaded=60.0)
    assert act(state(idle)) == []
    assert act(state(idle, idle=60.0)) == [Drain("v1", None)]
    assert act(state(idle, idle=61.0)) == []
    assert act(state(resident("v1", waiting=1), idle=1.0)) == []


def test_over_budget_the_least_valuable_go_until_the_rest_fits() -> None:
    models = [resident("v1", arrivals=0.01), resident("v2"), *BUSY[2:]]
    assert act(state(*models, budget=200)) == [Drain("v2", None)]
    assert act(state(*models, budget=100)) == [Drain("v2", None), Drain("v1", None)]


def test_a_model_that_another_triton_holds_needs_more_jobs() -> None:
    # A load of 2 s pays from 4 s of work on, and each Triton that has the model halves the work.
    def elsewhere(waiting: int, count: int, waited: float = 1.0) -> Model:
        return absent("a", waiting, waited)._replace(elsewhere=count)

    assert act(state(elsewhere(80, 1))) == []
    assert act(state(elsewhere(81, 1))) == [Load("a")]
    assert act(state(elsewhere(160, 2))) == []
    assert act(state(elsewhere(161, 2))) == [Load("a")]
    assert act(state(*BUSY, elsewhere(1, 1, waited=MAX_WAIT))) == []


def test_an_estimate_adds_the_loads_before_it() -> None:
    loading = absent("a")._replace(phase=Phase.LOADING)
    places = plan(state(loading, absent("b", waited=9.0), absent("c"))).places
    assert [(places[name].number, places[name].expected_in) for name in "abc"] == [(1, 2.0), (2, 4.0), (3, 6.0)]


def test_an_estimate_of_a_swap_that_does_not_pay_is_its_bound() -> None:
    assert plan(state(*BUSY, absent("a", waited=100.0))).places["a"].expected_in == MAX_WAIT - 100.0


def test_a_draining_model_with_jobs_has_a_place() -> None:
    draining = resident("v1", waiting=1)._replace(phase=Phase.DRAINING)
    assert plan(state(draining, absent("a"))).places["v1"].number == 2
