"""Whose turn it is among the tenants that wait for a model."""

from collections import Counter
from uuid import UUID

from common.jobs import Priority

NOBODY = UUID(int=0)


class Turns:
    """Of one model, in this dispatcher: how much each tenant runs, and who was served last in each class."""

    def __init__(self) -> None:
        self.running: Counter[UUID] = Counter()
        self.last: dict[Priority, UUID] = dict.fromkeys(Priority, NOBODY)

    def begin(self, tenant: UUID, priority: Priority) -> None:
        self.running[tenant] += 1
        self.last[priority] = tenant

    def end(self, tenant: UUID) -> None:
        self.running[tenant] -= 1
        if not self.running[tenant]:
            del self.running[tenant]
