"""Where a look for jobs begins."""

from uuid import UUID

from common import ids
from common.jobs import Priority
from services.dispatcher.turns import LOOK_SECONDS, MARGIN_MS, NONE, Place, Turns, rewind

HIGH, LOW = Priority.HIGH, Priority.LOW


def test_jobs_long_before_the_last_one_are_looked_at_now_and_then_or_after_a_miss() -> None:
    now = 0.0
    turns, tenant, job = Turns(lambda: now), ids.new(), ids.new()
    assert turns.next(HIGH) == Place(NONE, NONE)
    turns.begin(tenant, job, HIGH)
    assert turns.next(HIGH) == Place(tenant, rewind(job))
    assert turns.next(LOW) == Place(NONE, NONE)
    now = LOOK_SECONDS
    assert turns.next(HIGH) == Place(tenant, NONE)
    assert turns.next(HIGH) == Place(tenant, rewind(job))
    turns.miss(HIGH)
    assert turns.next(HIGH) == Place(tenant, NONE)


def test_the_margin_is_a_minute_before_the_id() -> None:
    job = ids.new()
    assert (job.int >> 80) - (rewind(job).int >> 80) == MARGIN_MS
    assert rewind(UUID(int=5)) == NONE


def test_what_has_ended_is_forgotten() -> None:
    turns, tenant = Turns(), ids.new()
    for _ in range(2):
        turns.begin(tenant, ids.new(), HIGH)
    turns.end(tenant)
    assert turns.running == {tenant: 1}
    turns.end(tenant)
    assert tenant not in turns.running
