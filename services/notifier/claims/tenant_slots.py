"""Shares a notifier's slots among tenants: how many deliveries of each a claim may take."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

MANY = 1_000_000


class TenantRooms(NamedTuple):
    """The attempts that a tenant may begin: `default`, or fewer for those that have some under way."""

    default: int
    fewer: Mapping[UUID, int]

    def to_values(self) -> tuple[int, list[UUID], list[int]]:
        """Return the values of a claim's statement."""
        return self.default, list(self.fewer), list(self.fewer.values())

    def list_full(self) -> list[UUID]:
        """Return the tenants that may begin none."""
        return [tenant for tenant, room in self.fewer.items() if room == 0]


UNLIMITED = TenantRooms(MANY, {})


class TenantSlots:
    """The slots that the attempts of each tenant use.

    A tenant may have as many under way as there are slots left. So one tenant fills half of them at
    most, and two tenants two thirds. There is always room for another tenant.
    """

    def __init__(self) -> None:
        self._in_flight: Counter[UUID] = Counter()

    def note_start(self, tenant: UUID) -> None:
        self._in_flight[tenant] += 1

    def note_end(self, tenant: UUID) -> None:
        self._in_flight[tenant] -= 1
        if not self._in_flight[tenant]:
            del self._in_flight[tenant]

    def find_rooms(self, free: int, limit: int) -> TenantRooms:
        """Return what tenants may begin while this many slots are free. A claim takes `limit` at most."""
        rooms = {tenant: max(0, free - attempts + 1) // 2 for tenant, attempts in self._in_flight.items()}
        return TenantRooms((free + 1) // 2, {tenant: room for tenant, room in rooms.items() if room < limit})
