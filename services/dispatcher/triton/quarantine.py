"""Quarantines models whose process has stalled.

A Python model's process that does not answer for a second is reported as not healthy, and Triton fails its batch.
A process that was frozen and not dead (a paused container, a migrating virtual machine) still answers that batch later.
Triton takes this answer for the answer to the next batch. From then on, answers reach the wrong requests.

Only a new process ends this. So a quarantine ends when the model was unloaded, or the server restarted. Triton shows no
identity of its start. It counts the executions of a process, so a lower count than at the stall shows another process.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias

from common.telemetry.logs import Log

INTERRUPT_SECONDS = 1.0  # in which Triton itself ends most requests of a dead process; a cancel may crash the server

# What stalled: the model's process, or the whole server; or another dispatcher knows.
Reason: TypeAlias = Literal["process", "server", "shared"]

log = Log("quarantine")


class Quarantine:
    """Decides whether an answer of a model can be trusted. An ensemble is as trusted as all of its steps."""

    def __init__(self) -> None:
        self.models: set[str] = set()
        """The models in quarantine. An ensemble is never one of them, unless its steps are unknown."""
        self.changed = asyncio.Event()
        """Set at each begin and end of a quarantine."""
        self.seen: set[str] = set()
        """Those of the models that this dispatcher itself saw stall. The others it knows from other dispatchers."""
        self.unloaded: set[str] = set()
        """Models whose last quarantine ended because they were not loaded. The others had a new process by then."""
        self.executions: dict[str, int] = {}
        """The count of executions of models in quarantine, as of the first look. A new process has a lower one."""
        self._stalls: Counter[str] = Counter()
        self._python: dict[str, bool] = {}
        self._steps: dict[str, list[str]] = {}
        self._deadlines: dict[asyncio.Timeout, str] = {}

    def describe(self, model: str, *, python: bool, steps: Sequence[str]) -> None:
        """Note whether a model runs in Python processes, and which models are the steps of an ensemble."""
        self._python[model] = python
        self._steps[model] = [*steps]

    def epoch(self, model: str) -> int:
        """Return the epoch of a request that is sent now. It changes at each stall."""
        return sum(self._stalls[each] for each in self._find_processes(model))

    def accepts(self, model: str, epoch: int) -> bool:
        """Return whether an answer to a request of this epoch can be trusted."""
        return epoch == self.epoch(model) and not self.holds(model)

    def holds(self, model: str) -> bool:
        """Return whether a model is in quarantine. Requests to it would be in vain."""
        return not self.models.isdisjoint(self._find_processes(model))

    def add(self, model: str, reason: Reason = "process") -> None:
        """Quarantine a model whose process Triton reported as not healthy, and interrupt its requests."""
        for each in self._find_processes(model):
            if self._python.get(each, True):
                self.hold(each, reason)
                self.seen.add(each)

    def add_all(self) -> None:
        """Quarantine all Python models, because the server stalled."""
        for model in list(self._python):
            self.add(model, "server")

    def count_stalls(self, model: str) -> int:
        """Return how often a model was quarantined."""
        return self._stalls[model]

    def hold(self, model: str, reason: Reason, executions: int | None = None) -> None:
        """Quarantine exactly this model, unless it is in quarantine, and interrupt its requests.

        `executions` is its count of executions at the stall, if another dispatcher knows it.
        """
        if model in self.models:
            return
        self.models.add(model)
        self._stalls[model] += 1
        if executions is not None:
            self.executions[model] = executions
        self.changed.set()
        log.error("model.quarantined", model=model, reason=reason)
        soon = asyncio.get_running_loop().time() + INTERRUPT_SECONDS
        for deadline, requested in self._deadlines.items():
            if model in self._find_processes(requested) and not deadline.expired():
                deadline.reschedule(min(soon, deadline.when() or soon))

    @contextlib.contextmanager
    def interrupt(self, model: str, deadline: asyncio.Timeout) -> Iterator[None]:
        """Let `deadline` expire soon if the model stalls in this context."""
        self._deadlines[deadline] = model
        try:
            yield
        finally:
            del self._deadlines[deadline]

    def release(self, model: str, *, unloaded: bool = False) -> None:
        """End a model's quarantine: its process is a new one, or will be before it answers again.

        `unloaded`: it has none until somebody loads the model.
        """
        if model in self.models:
            self.models.remove(model)
            self.seen.discard(model)
            self.executions.pop(model, None)
            (self.unloaded.add if unloaded else self.unloaded.discard)(model)
            self.changed.set()
            log.info("model.released", model=model)

    def release_all(self) -> None:
        """Release all models: the server is gone, and their processes with it."""
        for model in [*self.models]:
            self.release(model)

    def release_missing(self, ready: Collection[str]) -> None:
        """Release the models that are not ready: Triton loads them before they answer again."""
        for model in self.models.difference(ready):
            self.release(model, unloaded=True)

    def note_executions(self, model: str, count: int) -> None:
        """Release a model whose count of executions is lower than before, or zero: it was loaded since."""
        before = self.executions.setdefault(model, count)
        if count < before or count == 0:
            self.release(model)

    def _find_processes(self, model: str) -> set[str]:
        """Return the model, or the models that an ensemble consists of."""
        found, left = set[str](), [model]
        while left:
            name = left.pop()
            if name not in found and (steps := self._steps.get(name)):
                left += steps
            else:
                found.add(name)
        return found
