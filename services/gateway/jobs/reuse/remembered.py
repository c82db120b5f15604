"""Results that this gateway has seen lately. Who takes one needs no read before the commit, which checks it again."""

import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta

from common.job_states import Status
from common.jobs.twins import FoundTwin
from common.reuse.key import ReuseKey

MAX_BYTES = 16 * 1024 * 1024
TWIN_BYTES = 1024  # of one without its outputs
MAX_SECONDS = 60.0  # clocks drift apart


class RememberedResults:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._twins: OrderedDict[ReuseKey, tuple[FoundTwin, float]] = OrderedDict()  # with the time of each
        self._size = 0

    def find(self, key: ReuseKey) -> FoundTwin | None:
        """Return a twin that had succeeded, at the database's time now."""
        if key not in self._twins:
            return None
        twin, seen_at = self._twins[key]
        age = self._clock() - seen_at
        if age > MAX_SECONDS:
            self.forget(key)
            return None
        self._twins.move_to_end(key)
        return twin._replace(at=twin.at + timedelta(seconds=age))

    def note(self, key: ReuseKey, twin: FoundTwin) -> None:
        """Remember a twin, if it has succeeded. Forget those that nobody asked for longest, if there is no room."""
        self.forget(key)
        if twin.state is None or twin.state.status is not Status.SUCCEEDED:
            return
        self._twins[key] = twin, self._clock()
        self._size += measure(twin)
        while self._size > MAX_BYTES:
            self.forget(next(iter(self._twins)))

    def forget(self, key: ReuseKey) -> None:
        if key in self._twins:
            twin, _ = self._twins.pop(key)
            self._size -= measure(twin)


def measure(twin: FoundTwin) -> int:
    return TWIN_BYTES + len(twin.outputs or b"")
