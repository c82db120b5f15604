"""How long requests waited in Triton's own queue, and how long they were computed. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

NANOSECONDS = 1e6  # in a millisecond

Model: TypeAlias = tuple[str, str]  # name and version


class Totals(NamedTuple):
    """Triton's counters of a version since it was loaded. Times are in nanoseconds."""

    requests: int  # that a backend computed
    queue: int
    compute: int
    successes: int = 0  # also those that Triton's own cache answered


class Times(NamedTuple):
    """Means of recent requests, in milliseconds."""

    queue: float
    compute: float


class RecentTimes:
    """The means of the requests between the last two readings that differ."""

    def __init__(self) -> None:
        self.means: dict[Model, Times] = {}
        self._last: Mapping[Model, Totals] = {}

    def update(self, totals: Mapping[Model, Totals]) -> None:
        """Take over a reading. If a counter fell, the version was loaded again."""
        for model, now in totals.items():
            before = self._last.get(model, Totals(0, 0, 0))
            if any(new < old for new, old in zip(now, before, strict=True)):
                before = Totals(0, 0, 0)
            if requests := now.requests - before.requests:
                queue, compute = now.queue - before.queue, now.compute - before.compute
                self.means[model] = Times(queue / requests / NANOSECONDS, compute / requests / NANOSECONDS)
        self._last = totals


def read_totals(answer: Any) -> dict[Model, Totals]:
    """Return the counters in Triton's answer."""
    return {(each.name, each.version): add_up(each.inference_stats) for each in answer.model_stats}


def add_up(statistics: Any) -> Totals:
    compute = statistics.compute_input.ns + statistics.compute_infer.ns + statistics.compute_output.ns
    return Totals(statistics.compute_infer.count, statistics.queue.ns, compute, statistics.success.count)
