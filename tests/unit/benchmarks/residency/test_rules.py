"""The rule that the benchmark compares with: it always loads, and unloads what was used longest ago."""

from benchmarks.residency.dispatcher import plan_least_recently_used
from services.dispatcher.residency.rule import Drain, Load
from tests.support.residency.models import absent, resident, state


def test_the_least_recently_used_model_goes_although_jobs_wait_for_it() -> None:
    models = [resident("a", loaded=5.0), resident("b", loaded=9.0), resident("c", loaded=2.0, waiting=3, waited=1.0)]
    decided = plan_least_recently_used(state(absent("d", waited=9.0), absent("e"), *models))
    assert decided.actions == [Drain("b", "d")]
    assert decided.places.keys() == {"d", "e"}


def test_the_oldest_job_has_its_model_loaded_first() -> None:
    assert plan_least_recently_used(state(absent("d"), absent("e", waited=9.0))).actions == [Load("e")]
