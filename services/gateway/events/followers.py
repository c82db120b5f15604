"""Which jobs wait for the result of another one, whose changes are theirs, too."""

from collections.abc import Collection
from uuid import UUID


class Followers:
    """The jobs that wait for a twin, by that twin. It has only jobs that somebody here waits for."""

    def __init__(self) -> None:
        self._by_twin: dict[UUID, set[UUID]] = {}
        self._twins: dict[UUID, UUID] = {}

    def find(self, twin: UUID) -> Collection[UUID]:
        """Return the jobs that wait for a twin."""
        return self._by_twin.get(twin, ())

    def note(self, job: UUID, twin: UUID | None) -> None:
        """Note for which twin a job waits. None: it waits for none."""
        if self._twins.get(job) == twin:
            return
        self.forget(job)
        if twin is not None:
            self._twins[job] = twin
            self._by_twin.setdefault(twin, set()).add(job)

    def forget(self, job: UUID) -> None:
        """Forget a job that nobody waits for any more."""
        twin = self._twins.pop(job, None)
        if twin is not None:
            self._by_twin[twin].discard(job)
            if not self._by_twin[twin]:
                del self._by_twin[twin]
