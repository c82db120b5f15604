"""How many deliveries of each tenant a claim may take."""

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
