"""What becomes of groups of jobs that wait for a twin. Pure."""

import pytest

from common import ids
from common.job_states import Status
from common.reuse.decisions import Loads
from services.dispatcher.reuse.plan import Group, Served, plan
from tests.unit.dispatcher.reuse.test_takers import LOAD, NOW, STATE, TWIN, join

ECHO = Served("echo", None)
LOADS: dict[Served, Loads | None] = {ECHO: {("1", LOAD)}, Served("gone", None): None, Served("small", None): ()}
LIVE = TWIN._replace(state=STATE._replace(status=Status.PROCESSING))
FAILED = TWIN._replace(state=STATE._replace(status=Status.FAILED))
GONE = TWIN._replace(state=None)


def test_groups_are_settled_together() -> None:
    takers, electors, gone, waiting = ([join(), join()] for _ in range(4))
    gone = [join(model="gone") for _ in gone]
    groups = [Group(takers, TWIN), Group(electors, None), Group(gone, FAILED), Group(waiting, LIVE)]
    done = plan(groups, LOADS, NOW)
    assert [taker.job.id for taker in done.takers] == [job.id for job in takers]
    assert [each.id for each in done.promotions] == [electors[0].id]
    assert done.released == gone


@pytest.mark.parametrize("twin", [FAILED, GONE, TWIN._replace(state=STATE._replace(load_id=ids.new()))])
def test_without_a_result_the_oldest_runs_in_place_of_the_twin(twin: object) -> None:
    jobs = [join(), join()]
    done = plan([Group(jobs, twin)], LOADS, NOW)  # type: ignore[arg-type]
    assert (done.takers, done.released) == ([], [])
    assert [(each.id, each.before) for each in done.promotions] == [(jobs[0].id, TWIN.job_id)]


def test_who_may_not_take_the_result_waits_until_the_others_have_it() -> None:
    young, old = join(), join(reuse_seconds=-60.0)
    done = plan([Group([young, old], TWIN)], LOADS, NOW)
    assert [taker.job.id for taker in done.takers] == [young.id]
    assert done.promotions == []


@pytest.mark.parametrize(("model", "wanted"), [("echo", "7"), ("small", None)])
def test_of_a_fallback_model_the_newest_version_answers(model: str, wanted: str | None) -> None:
    group = Group([join(version="7")], TWIN._replace(state=STATE._replace(model=model)))
    assert (group.own, group.answering) == (("echo", "7"), (model, wanted))
