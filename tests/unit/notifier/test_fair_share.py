"""A tenant fills half of the slots at most, and waiting events of tenants take turns."""

from uuid import UUID

from services.notifier.fair_share import FairShare, WaitingEvents

FIRST, SECOND, THIRD = (UUID(int=number) for number in (1, 2, 3))
SLOTS = 640


def fill(share: FairShare, tenant: UUID, used: int) -> int:
    """Start attempts until the tenant has no room. Return how many."""
    started = 0
    while True:
        rooms = share.find_rooms(SLOTS - used - started, SLOTS)
        room = min(rooms.fewer.get(tenant, rooms.default), 200)
        if room == 0:
            return started
        for _ in range(room):
            share.note_start(tenant)
        started += room


def test_a_tenant_may_fill_half_of_the_slots_and_leaves_room_for_others() -> None:
    share = FairShare()
    assert fill(share, FIRST, 0) == SLOTS / 2
    assert fill(share, SECOND, SLOTS // 2) == SLOTS / 4
    assert fill(share, FIRST, 3 * SLOTS // 4) == 0
    assert share.find_rooms(SLOTS // 4, SLOTS).default == SLOTS / 8


def test_the_last_slot_is_for_a_tenant_without_attempts() -> None:
    share = FairShare()
    assert share.find_rooms(1, 200).default == 1
    share.note_start(FIRST)
    assert share.find_rooms(1, 200) == (1, {FIRST: 0})
    share.note_end(FIRST)
    assert share.find_rooms(1, 200) == (1, {})


def test_only_rooms_below_the_limit_of_a_claim_are_named() -> None:
    share = FairShare()
    share.note_start(FIRST)
    assert share.find_rooms(SLOTS, 200) == (320, {})


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
