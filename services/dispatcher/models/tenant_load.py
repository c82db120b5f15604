"""Remembers what a claim needs to share a model fairly. common/jobs/claim.sql decides whose turn it is."""

from collections import Counter
from uuid import UUID

from common.job_states import Priority

NIL = UUID(int=0)


class TenantLoad:
    """Tracks, for one model in this dispatcher, the running jobs of each tenant and the tenant served last.

    While a large job waits for memory, smaller jobs pass it. The turn stays with its tenant, so that it comes next. The
    jobs that passed count as running until then, even after their end, so that their tenants pass in turns.
    """

    def __init__(self) -> None:
        self.running: Counter[UUID] = Counter()
        self.last_tenant: dict[Priority, UUID] = dict.fromkeys(Priority, NIL)
        self._passes: dict[Priority, Counter[UUID]] = {priority: Counter() for priority in Priority}

    def count_running(self, priority: Priority) -> Counter[UUID]:
        """Return how many jobs of each tenant count as running for the next claim."""
        return self.running + self._passes[priority]

    def note_start(self, tenant: UUID, priority: Priority, *, passed: bool = False) -> None:
        """Record a start. `passed`: the job passed a larger one whose turn it was."""
        self.running[tenant] += 1
        if passed:
            self._passes[priority][tenant] += 1
        else:
            self.last_tenant[priority] = tenant
            self._passes[priority].clear()

    def note_end(self, tenant: UUID) -> None:
        self.running[tenant] -= 1
        if not self.running[tenant]:
            del self.running[tenant]
