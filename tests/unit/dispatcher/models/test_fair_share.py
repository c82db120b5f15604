"""The tenant served last, and the running jobs of each tenant."""

from common import ids
from common.job_states import Priority
from services.dispatcher.models.fair_share import NIL, FairShare

HIGH, LOW = Priority.HIGH, Priority.LOW


def test_each_priority_has_its_own_turn() -> None:
    share, tenant = FairShare(), ids.new()
    share.note_start(tenant, HIGH)
    assert (share.last_tenant[HIGH], share.last_tenant[LOW]) == (tenant, NIL)


def test_an_ended_job_is_no_longer_counted() -> None:
    share, tenant = FairShare(), ids.new()
    for _ in range(2):
        share.note_start(tenant, HIGH)
    share.note_end(tenant)
    assert share.running == {tenant: 1}
    share.note_end(tenant)
    assert tenant not in share.running


def test_a_job_that_passed_counts_until_the_turn_moves_on() -> None:
    share, waiting, tenant = FairShare(), ids.new(), ids.new()
    share.note_start(tenant, HIGH, passed=True)
    share.note_end(tenant)
    assert (share.last_tenant[HIGH], share.count_turns(HIGH), share.count_turns(LOW)) == (NIL, {tenant: 1}, {})
    share.note_start(waiting, HIGH)
    assert (share.last_tenant[HIGH], share.count_turns(HIGH)) == (waiting, {waiting: 1})
