"""The tenant served last, and the running jobs of each tenant."""

from common import ids
from common.job_states import Priority
from services.dispatcher.models.tenant_load import NIL, TenantLoad

HIGH, LOW = Priority.HIGH, Priority.LOW


def test_each_priority_has_its_own_turn() -> None:
    turns, tenant = TenantLoad(), ids.new()
    turns.note_start(tenant, HIGH)
    assert (turns.last_tenant[HIGH], turns.last_tenant[LOW]) == (tenant, NIL)


def test_an_ended_job_is_no_longer_counted() -> None:
    turns, tenant = TenantLoad(), ids.new()
    for _ in range(2):
        turns.note_start(tenant, HIGH)
    turns.note_end(tenant)
    assert turns.running == {tenant: 1}
    turns.note_end(tenant)
    assert tenant not in turns.running


def test_a_job_that_passed_counts_until_the_turn_moves_on() -> None:
    turns, waiting, tenant = TenantLoad(), ids.new(), ids.new()
    turns.note_start(tenant, HIGH, passed=True)
    turns.note_end(tenant)
    assert (turns.last_tenant[HIGH], turns.count_running(HIGH), turns.count_running(LOW)) == (NIL, {tenant: 1}, {})
    turns.note_start(waiting, HIGH)
    assert (turns.last_tenant[HIGH], turns.count_running(HIGH)) == (waiting, {waiting: 1})
