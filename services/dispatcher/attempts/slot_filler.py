"""Fills the free slots of a model with jobs that no message announces."""

import asyncio
import contextlib
from collections.abc import Callable

from common.errors import Retry
from common.job_states import Priority
from services.dispatcher.claims.claims import BATCH, Claims
from services.dispatcher.models.served_model import ServedModel

Start = Callable[[ServedModel, Priority, bool], asyncio.Task[bool]]

HOLD_SECONDS = 600.0  # for a slot; a later claim that leaves jobs begins again


class SlotFiller:
    """Goes on claiming after a claim that left late jobs, because their messages were lost.

    Jobs whose messages wait for a slot go first. Then the filler uses what they leave. So it starts a job only in a
    slot that would idle.
    """

    def __init__(self, claims: Claims, start: Start) -> None:
        """`start` claims and starts a job in a slot that is held. Its task returns False without room for inputs."""
        self._claims = claims
        self._start = start
        self._tasks: dict[tuple[str, Priority], asyncio.Task[None]] = {}
        self._stopped = False

    def note_claim(self, model: ServedModel, priority: Priority) -> None:
        """Fill free slots in the background, if a claim has just left late jobs."""
        queue = model.name, priority
        if self._claims.has_late(model, priority) and queue not in self._tasks and not self._stopped:
            self._tasks[queue] = task = asyncio.create_task(self._fill(model, priority))
            task.add_done_callback(lambda _: self._tasks.pop(queue))

    def stop(self) -> None:
        """Take no more slots."""
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()

    async def _fill(self, model: ServedModel, priority: Priority) -> None:
        """Start jobs until no late one is left that may start, or there is no room for its inputs.

        Each round claims up to twice as many as the one before, because a claim costs more the more it looks for.
        """
        wanted = 1
        with contextlib.suppress(Retry, TimeoutError):
            while wanted and self._claims.has_late(model, priority):
                async with asyncio.timeout(HOLD_SECONDS):
                    probe = await model.acquire(priority, last=True)
                more = 0 if probe else model.concurrency.take_free(wanted - 1)
                starts = [self._start(model, priority, each) for each in (probe, *[False] * more)]
                await asyncio.wait(starts)
                wanted = min(2 * wanted, BATCH) if all(start.result() for start in starts) else 0
