"""The rule with a Triton in virtual time: all jobs end, within bounds, and with few swaps."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import ceil
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.dispatcher.residency.rule import Action, State, plan
from services.dispatcher.residency.state import size_up
from tests.support.residency.other_rules import replace_least_recently_used
from tests.support.residency.simulated_triton import PLAN_SECONDS, Job, Program, SimulatedTriton


def choose(state: State) -> Sequence[Action]:
    return plan(state).actions


class Case(NamedTuple):
    programs: list[Program]
    jobs: list[Job]


@st.composite
def cases(draw: st.DrawFn, arrivals: float = 200.0, is_declared: bool = True) -> Case:
    programs = []
    for number in range(draw(st.integers(1, 8))):
        memory = draw(st.integers(20, 100))
        programs.append(
            Program(
                f"m{number}",
                memory,
                memory if is_declared else None,
                draw(st.sampled_from([0.5, 2.0, 5.0])),
                draw(st.sampled_from([0.01, 0.3])),
                draw(st.integers(1, 3)),
                keep=number == 0 and draw(st.booleans()),
                unload_seconds=draw(st.sampled_from([0.0, 1.25])),
            )
        )
    names = st.sampled_from([program.name for program in programs])
    job = st.builds(Job, names, st.floats(0, arrivals) if arrivals else st.just(0.0))
    return Case(programs, sorted(draw(st.lists(job, max_size=60)), key=lambda job: job.arrives))


@settings(max_examples=60)
@given(cases())
def test_all_jobs_run_within_the_budget_and_kept_models_stay(case: Case) -> None:
    triton = SimulatedTriton(case.programs, 200, 30.0, choose)
    triton.run(case.jobs)
    assert sorted(started.job for started in triton.started) == sorted(case.jobs)
    assert triton.most_held <= 200
    kept = {program.name for program in case.programs if program.keep}
    assert not kept & {drained.action.name for drained in triton.drained}


@settings(max_examples=60)
@given(cases())
def test_no_job_waits_longer_than_its_bound_and_what_was_under_way(case: Case) -> None:
    """Few jobs: all loads fit into MAX_WAIT. Then a job waits for a load that had begun,
    for plans, and for inferences."""
    max_wait = 60.0
    triton = SimulatedTriton(case.programs, 200, max_wait, choose)
    triton.run(case.jobs)
    under_way = max(program.load_seconds + program.unload_seconds for program in case.programs)
    compute_seconds = {program.name: program.compute_seconds for program in case.programs}
    inferences = sum(compute_seconds[job.model] for job in case.jobs)
    plans = 2 * PLAN_SECONDS * len(case.programs)
    assert max(triton.waits, default=0.0) <= max_wait + under_way + inferences + plans


@settings(max_examples=60)
@given(cases(arrivals=0.0))
def test_without_new_jobs_each_model_is_loaded_once(case: Case) -> None:
    triton = SimulatedTriton(case.programs, 200, 300.0, choose)
    triton.run(case.jobs)
    names = [loaded.name for loaded in triton.loaded]
    assert len(triton.started) == len(case.jobs)
    assert len(names) == len({*names})


@settings(max_examples=60)
@given(cases(is_declared=False))
def test_unknown_memory_is_learned_and_then_counted(case: Case) -> None:
    triton = SimulatedTriton(case.programs, 200, 30.0, choose)
    triton.run(case.jobs)
    for loaded in triton.loaded:
        sized = {one.name: one for one in size_up(loaded.state)}
        held = sum(one.memory for one in sized.values() if one.model.phase != "absent")
        assert held + sized[loaded.name].memory <= 200
    assert len(triton.started) == len(case.jobs)
    # A first load may take more than was assumed. What exceeds the budget is drained at once.
    assert triton.most_held <= 200 + 100
    assert triton.held <= 200


def test_a_model_that_turns_out_larger_than_the_budget_is_unloaded_and_not_tried_again() -> None:
    triton = SimulatedTriton([Program("large", 301), Program("small", 100, 100)], 300, 30.0, choose)
    triton.run([Job("large", 0.0), Job("small", 1.0), Job("large", 40.0), Job("small", 90.0)], until=200.0)
    assert [loaded.name for loaded in triton.loaded] == ["large", "small"]
    assert [started.job.model for started in triton.started].count("small") == 2


def test_models_that_nobody_knows_are_learned_one_after_the_other() -> None:
    triton = SimulatedTriton([Program(f"m{number}", is_known=False) for number in range(9)], 300, 300.0, choose)
    triton.run([Job("m0", 200.0)], until=199.0)
    assert {loaded.name for loaded in triton.loaded} == {f"m{number}" for number in range(9)}
    assert triton.most_held <= 300


def test_a_model_with_many_old_jobs_does_not_take_back_the_room_that_it_made() -> None:
    programs = [Program("busy", 100, 100, compute_seconds=0.1), Program("rare", 100, 100)]
    triton = SimulatedTriton(programs, 100, 30.0, choose)
    triton.run([*(Job("busy", 0.0) for _ in range(1000)), Job("rare", 1.0)])
    assert [loaded.name for loaded in triton.loaded] == ["busy", "rare", "busy"]


MODELS = 30
BUDGET = 300
MAX_WAIT = 300.0
UNLOAD_SECONDS = 1.25  # Triton's, of a Python model of any size


def thirty_programs(compute_seconds: float) -> list[Program]:
    loads = [0.5 + 4.5 * number / (MODELS - 1) for number in range(MODELS)]
    Random(1).shuffle(loads)  # noqa: S311
    return [
        Program(f"m{number:02}", 100, 100, loads[number], compute_seconds, unload_seconds=UNLOAD_SECONDS)
        for number in range(MODELS)
    ]


def zipf(rate: float, seconds: float) -> list[Job]:
    random, weights = Random(7), [1 / (number + 1) for number in range(MODELS)]  # noqa: S311
    times = accumulate(random.expovariate(rate) for _ in range(ceil(rate * seconds)))
    return [Job(f"m{random.choices(range(MODELS), weights)[0]:02}", time) for time in times]


def simulate(
    choose: Callable[[State], Sequence[Action]], jobs: list[Job], compute_seconds: float, in_flight: int | None = None
) -> SimulatedTriton:
    triton = SimulatedTriton(thirty_programs(compute_seconds), BUDGET, MAX_WAIT, choose, in_flight=in_flight)
    triton.run(jobs)
    assert len(triton.started) == len(jobs)
    assert triton.most_held <= BUDGET
    return triton


@pytest.mark.parametrize(("rate", "compute_seconds"), [(30.0, 0.05), (20.0, 0.2)], ids=["all in time", "too many jobs"])
def test_swaps_are_half_of_those_of_the_least_recently_used_rule(rate: float, compute_seconds: float) -> None:
    jobs = zipf(rate, 600.0)
    ours = simulate(choose, jobs, compute_seconds)
    theirs = simulate(replace_least_recently_used, jobs, compute_seconds)
    assert 2 * ours.swaps <= theirs.swaps
    assert ours.now <= 1.05 * theirs.now


@pytest.mark.parametrize("in_flight", [1, 32], ids=["one at a time", "32 at a time"])
def test_more_jobs_end_than_in_the_order_of_their_arrival(in_flight: int) -> None:
    jobs = zipf(15.0, 60.0)
    ours = simulate(choose, jobs, 0.05)
    theirs = simulate(replace_least_recently_used, jobs, 0.05, in_flight)
    assert 1.5 * ours.now <= theirs.now
    assert 2 * ours.swaps <= theirs.swaps


def test_99_of_100_jobs_wait_no_longer_than_the_bound() -> None:
    waits = sorted(simulate(choose, zipf(15.0, 600.0), 0.05).waits)
    assert waits[len(waits) * 99 // 100] <= MAX_WAIT
