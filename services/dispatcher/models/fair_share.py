"""Shares a model fairly among the tenants with queued jobs."""

from collections import Counter
from uuid import UUID

from common.jobs import Priority

NIL = UUID(int=0)


class FairShare:
    """Tracks, for one model in this dispatcher, the running jobs of each tenant and the tenant served last."""

    def __init__(self) -> None:
        self.running: Counter[UUID] = Counter()
        self.last_tenant: dict[Priority, UUID] = dict.fromkeys(Priority, NIL)

    def note_start(self, tenant: UUID, priority: Priority) -> None:
        self.running[tenant] += 1
        self.last_tenant[priority] = tenant

    def note_end(self, tenant: UUID) -> None:
        self.running[tenant] -= 1
        if not self.running[tenant]:
            del self.running[tenant]
