"""A tenant fills half of the slots at most."""

from uuid import UUID

from services.notifier.claims.tenant_slots import TenantSlots

FIRST, SECOND = UUID(int=1), UUID(int=2)
SLOTS = 640


def fill(slots: TenantSlots, tenant: UUID, used: int) -> int:
    """Start attempts until the tenant has no room. Return how many."""
    started = 0
    while True:
        rooms = slots.find_rooms(SLOTS - used - started, SLOTS)
        room = min(rooms.fewer.get(tenant, rooms.default), 200)
        if room == 0:
            return started
        for _ in range(room):
            slots.note_start(tenant)
        started += room


def test_a_tenant_may_fill_half_of_the_slots_and_leaves_room_for_others() -> None:
    slots = TenantSlots()
    assert fill(slots, FIRST, 0) == SLOTS / 2
    assert fill(slots, SECOND, SLOTS // 2) == SLOTS / 4
    assert fill(slots, FIRST, 3 * SLOTS // 4) == 0
    assert slots.find_rooms(SLOTS // 4, SLOTS).default == SLOTS / 8


def test_the_last_slot_is_for_a_tenant_without_attempts() -> None:
    slots = TenantSlots()
    assert slots.find_rooms(1, 200).default == 1
    slots.note_start(FIRST)
    assert slots.find_rooms(1, 200) == (1, {FIRST: 0})
    slots.note_end(FIRST)
    assert slots.find_rooms(1, 200) == (1, {})


def test_only_rooms_below_the_limit_of_a_claim_are_named() -> None:
    slots = TenantSlots()
    slots.note_start(FIRST)
    assert slots.find_rooms(SLOTS, 200) == (320, {})
