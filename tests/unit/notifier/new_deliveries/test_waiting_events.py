"""Waiting events of tenants take turns."""

from uuid import UUID

from services.notifier.new_deliveries.waiting_events import WaitingEvents

FIRST, SECOND, THIRD = (UUID(int=number) for number in (1, 2, 3))


def test_tenants_take_turns() -> None:
    waiting = WaitingEvents(100)
    for event in range(10, 15):
        waiting.add(FIRST, UUID(int=event), "trace")
    waiting.add(SECOND, UUID(int=20), "")
    waiting.add(THIRD, UUID(int=30), "")
    waiting.add(FIRST, UUID(int=10), "again")
    assert len(waiting) == 7
    assert [event.int for event in waiting.take(4)] == [10, 20, 30, 11]
    assert (UUID(int=12) in waiting, UUID(int=10) in waiting) == (True, False)
    assert waiting.take(10) == {UUID(int=event): "trace" for event in (12, 13, 14)}
    assert waiting.take(10) == {}


def test_a_tenant_may_fill_half_of_the_room_for_waiting_events() -> None:
    waiting = WaitingEvents(8)
    for number in range(10):
        waiting.add(FIRST, UUID(int=number), "")
    assert len(waiting) == 4
    for number in range(10, 20):
        waiting.add(SECOND, UUID(int=number), "")
    waiting.add(FIRST, UUID(int=9), "")
    waiting.add(THIRD, UUID(int=30), "")
    assert [event.int for event in waiting.take(8)] == [0, 10, 30, 1, 11, 2, 3]
