"""Runs suspected poison jobs alone, if a crash beside others did not show which of them caused it."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from common.errors import Retry
from common.jobs.job import ClaimKey
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.dispatcher.attempts.running_job import RunningJob, RunningJobs
from services.dispatcher.failures.crash_causes import Start, is_doubtful, runs_alone
from services.dispatcher.failures.retry_policy import PROBATION_SECONDS
from services.dispatcher.triton.errors import InferenceError

ALONE_SECONDS = 300.0  # that a suspect holds back the others at most
RECENT_SECONDS = 5.0  # one crash interrupts all its jobs within this time
REMEMBERED = 1000  # interruptions, and jobs that Triton may still run
POLL_SECONDS = 1.0  # at least, between two looks at jobs that still read their inputs

log = Log("suspects")


class Suspects:
    """The suspects of this dispatcher. `jobs` are all that it runs."""

    def __init__(self, jobs: RunningJobs, clock: Callable[[], float] = time.monotonic) -> None:
        self._jobs = jobs
        self._clock = clock
        self._alone: set[ClaimKey] = set()
        self._free = asyncio.Event()
        self._free.set()
        self._stopped = False
        self._interrupted: deque[tuple[float, Start]] = deque(maxlen=REMEMBERED)
        self._left: deque[tuple[float, Start]] = deque(maxlen=REMEMBERED)

    async def wait(self) -> None:
        """Return when no job runs alone. Raises Retry if the dispatcher stops meanwhile."""
        await self._free.wait()
        if self._stopped and self._alone:
            raise Retry("the dispatcher stops while a suspected job runs alone")

    def stop(self) -> None:
        """Let nobody wait any longer."""
        self._stopped = True
        self._free.set()

    def note_interruption(self, job: RunningJob) -> bool:
        """Note that a crash hit a job. Return whether another tenant's unproven job may have caused it."""
        now = self._clock()
        recent = [other for at, other in self._interrupted if now - at <= RECENT_SECONDS]
        recent += [other for at, other in self._left if now - at <= PROBATION_SECONDS]
        self._interrupted.append((now, read_start(job)))
        running = [read_start(each) for each in self._jobs.values() if each.sent_at is not None and not each.recording]
        return job.job.probation is not None and is_doubtful(read_start(job), [*recent, *running])

    @contextmanager
    def watch(self, running: RunningJob) -> Iterator[None]:
        """Note that the inference of a job is sent in this context: from now on, the job may be what stops Triton.

        If it times out or is canceled, Triton may still run it, and nobody will see its end.
        """
        running.sent_at = self._clock()
        try:
            yield
        except (InferenceError, asyncio.CancelledError) as error:
            if not isinstance(error, InferenceError) or error.failure.code == "timeout":
                self._left.append((self._clock(), read_start(running)))
            raise

    @asynccontextmanager
    async def run_alone(self, running: RunningJob) -> AsyncIterator[None]:
        """Hold back new jobs while a suspect runs that has to run alone, until it has survived its probation.

        Wait first until the unproven jobs of other tenants have ended, or are proven.
        """
        probation = running.job.probation
        if probation is None or not runs_alone(running.job):
            yield
            return
        self._alone.add(running.key)
        self._free.clear()
        try:
            await self._wait_for_others(running)
            seconds = min(probation, ALONE_SECONDS)
            asyncio.get_running_loop().call_later(seconds, self._release, running.key)
            log.warning("suspect.runs_alone", **job_log_fields(running.job), seconds=seconds)
            yield
        finally:
            self._release(running.key)

    async def _wait_for_others(self, suspect: RunningJob) -> None:
        while others := [each for each in self._jobs.values() if self._is_unproven(each, suspect)]:
            proven_in = PROBATION_SECONDS - (self._clock() - max(each.began for each in others))
            await asyncio.wait([each.task for each in others], timeout=max(proven_in, POLL_SECONDS))

    def _is_unproven(self, other: RunningJob, suspect: RunningJob) -> bool:
        return (
            other.job.tenant_id != suspect.job.tenant_id
            and not other.recording
            and not (other.sent_at is not None and self._clock() - other.sent_at >= PROBATION_SECONDS)
        )

    def _release(self, key: ClaimKey) -> None:
        self._alone.discard(key)
        if not self._alone:
            self._free.set()


def read_start(running: RunningJob) -> Start:
    return Start(running.job.tenant_id, running.began)
