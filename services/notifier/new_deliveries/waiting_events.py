"""Events whose further receivers are scheduled afterwards."""

from uuid import UUID


class WaitingEvents:
    """Events with traceparents that wait for their turn. Tenants take turns.

    A tenant may have as many as there is room left, so there is always room for another tenant.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_tenant: dict[UUID, dict[UUID, str]] = {}

    def __len__(self) -> int:
        return sum(len(events) for events in self._by_tenant.values())

    def __contains__(self, event: UUID) -> bool:
        return any(event in events for events in self._by_tenant.values())

    def add(self, tenant: UUID, event: UUID, traceparent: str) -> None:
        """Add an event, unless its tenant has no room."""
        if len(self._by_tenant.get(tenant, ())) < self._limit - len(self):
            self._by_tenant.setdefault(tenant, {}).setdefault(event, traceparent)

    def take(self, limit: int) -> dict[UUID, str]:
        """Return up to `limit` events: the first of each tenant before the second of any."""
        taken: dict[UUID, str] = {}
        while self._by_tenant and len(taken) < limit:
            tenant, events = next(iter(self._by_tenant.items()))
            del self._by_tenant[tenant]
            event = next(iter(events))
            taken[event] = events.pop(event)
            if events:
                self._by_tenant[tenant] = events  # behind the others
        return taken
