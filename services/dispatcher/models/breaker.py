"""Stops the jobs of a model that does not answer. Then one job at a time finds out whether it answers again."""

import asyncio
import time
from collections.abc import Callable
from uuid import UUID

from common.telemetry.logs import Log

TIMEOUTS = 2  # different jobs in a row; one job may simply be slow
FIRST_SECONDS = 0.5  # until the first probe; each further probe waits twice as long
PROBE_SECONDS = 10.0  # after which a probe delays the next one no longer: the model may only be slow
MAX_SECONDS = 5.0  # a tenant's timeouts must not keep the jobs of others from a healthy model for long

log = Log("breaker")


class Breaker:
    """The breaker of one model in this dispatcher. It opens after a crash, or after two timeouts in a row.

    While it is open, jobs start as probes, each after the end of the last one, or after PROBE_SECONDS. Any answer of
    the model closes it, also one to an older request.
    """

    def __init__(self, model: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self.is_open = False
        self._model = model
        self._clock = clock
        self._answered_at = float("-inf")
        self._timed_out: set[UUID] = set()
        self._probe_at = 0.0
        self._delay = FIRST_SECONDS
        self._changed = asyncio.Event()

    @property
    def may_start(self) -> bool:
        """Whether a job may start now."""
        return not self.is_open or self._clock() >= self._probe_at

    async def wait(self) -> None:
        """Return once a job may start."""
        while not self.may_start:
            try:
                async with asyncio.timeout(self._probe_at - self._clock()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def start(self) -> bool:
        """Note that a job starts. Return whether it is a probe, which `end_probe` or `cancel_probe` must end."""
        if self.is_open:
            self._probe_at = self._clock() + PROBE_SECONDS
        return self.is_open

    def end_probe(self) -> None:
        """Allow the next probe after a delay, if this one did not close the breaker."""
        self._delay = min(2 * self._delay, MAX_SECONDS)
        self._schedule_probe(self._delay)

    def cancel_probe(self) -> None:
        """Allow the next probe at once, because there was no job for this one. The model was not asked."""
        self._schedule_probe(0.0)

    def note_answer(self) -> None:
        """Close, because the model answered."""
        self._answered_at = self._clock()
        self._timed_out.clear()
        if self.is_open:
            self.is_open = False
            log.info("model.circuit_closed", model=self._model)
            self._wake()

    def note_crash(self) -> None:
        """Open, because the model's process died or stalled."""
        self._open("crash")

    def note_timeout(self, job: UUID, seconds: float) -> bool:
        """Note an attempt of this length that timed out. Return whether the model may be to blame, and not the job.

        It is not if the model answered another job in that time.
        """
        if self._clock() - seconds <= self._answered_at:
            return False
        self._timed_out.add(job)
        if len(self._timed_out) >= TIMEOUTS:
            self._open("timeouts")
        return self.is_open

    def _open(self, reason: str) -> None:
        self._timed_out.clear()
        if not self.is_open:
            self.is_open, self._delay = True, FIRST_SECONDS
            log.warning("model.circuit_opened", model=self._model, reason=reason)
            self._schedule_probe(self._delay)

    def _schedule_probe(self, delay: float) -> None:
        self._probe_at = self._clock() + delay
        self._wake()

    def _wake(self) -> None:
        """Let all waiters look again."""
        self._changed.set()
        self._changed.clear()
