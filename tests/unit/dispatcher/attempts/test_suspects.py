"""A suspect that crashed beside others runs alone the next time."""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.errors import Retry
from common.jobs.job import ClaimKey
from services.dispatcher.attempts import suspects as module
from services.dispatcher.attempts.running_job import RunningJob, RunningJobs
from services.dispatcher.attempts.suspects import RECENT_SECONDS, Suspects
from services.dispatcher.failures.retry_policy import find_probation
from tests.unit.clock import Clock
from tests.unit.dispatcher.jobs import claimed, make_running

OWN, OTHER = ids.new(), ids.new()
SOON = 10.0


class Dispatcher:
    """Its jobs run until they are told to end."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.jobs: RunningJobs = {}
        self.suspects = Suspects(self.jobs, self.clock)
        self.began: defaultdict[ClaimKey, asyncio.Event] = defaultdict(asyncio.Event)
        self.ends: defaultdict[ClaimKey, asyncio.Event] = defaultdict(asyncio.Event)

    async def start(self, tenant: UUID = OTHER, interruptions: int = 0, *, sent: bool = True) -> RunningJob:
        job = msgspec.structs.replace(
            claimed(), tenant_id=tenant, interruptions=interruptions, probation=find_probation(interruptions)
        )
        running = make_running(job)
        running.claimed_at = self.clock()
        self.jobs[running.key] = running
        running.held.callback(self.jobs.pop, running.key)
        running.start(self._run(running, sent))
        await asyncio.sleep(0)  # it begins, unless it waits
        return running

    async def _run(self, running: RunningJob, sent: bool) -> None:
        async with self.suspects.run_alone(running):
            with self.suspects.watch(running) if sent else nullcontext():
                self.began[running.key].set()
                await self.ends[running.key].wait()

    async def begin(self, running: RunningJob) -> None:
        async with asyncio.timeout(SOON):
            await self.began[running.key].wait()

    async def end(self, running: RunningJob) -> None:
        self.ends[running.key].set()
        await running.task


async def is_held(waiting: Coroutine[Any, Any, None]) -> bool:
    """Return whether something waits, after all else has had its turn."""
    task = asyncio.create_task(waiting)
    for _ in range(5):
        await asyncio.sleep(0)
    held = not task.done()
    task.cancel()
    return held


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher()


async def test_nobody_waits_for_a_suspect_that_may_run_beside_others(dispatcher: Dispatcher) -> None:
    other, suspect = await dispatcher.start(), await dispatcher.start(OWN, 3)
    await dispatcher.begin(suspect)
    assert not await is_held(dispatcher.suspects.wait())
    await dispatcher.end(suspect)
    await dispatcher.end(other)


async def test_a_suspect_that_runs_alone_waits_for_others_and_holds_new_ones_back(dispatcher: Dispatcher) -> None:
    proven = await dispatcher.start()
    dispatcher.clock.now += 30.0
    own, other, suspect = await dispatcher.start(OWN), await dispatcher.start(), await dispatcher.start(OWN, 4)
    for each in (proven, own, other):
        await dispatcher.begin(each)
    assert await is_held(dispatcher.suspects.wait())
    assert not dispatcher.began[suspect.key].is_set()
    dispatcher.clock.now += 2.0
    await dispatcher.end(other)
    await dispatcher.begin(suspect)
    assert await is_held(dispatcher.suspects.wait())
    await dispatcher.end(suspect)
    assert not await is_held(dispatcher.suspects.wait())
    await dispatcher.end(proven)
    await dispatcher.end(own)


async def test_others_begin_once_a_suspect_has_survived(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ALONE_SECONDS", 0.05)
    suspect = await dispatcher.start(OWN, 4)
    await dispatcher.begin(suspect)
    async with asyncio.timeout(SOON):
        await dispatcher.suspects.wait()
    await dispatcher.end(suspect)


async def test_a_dispatcher_that_stops_waits_for_no_suspect(dispatcher: Dispatcher) -> None:
    suspect = await dispatcher.start(OWN, 4)
    await dispatcher.begin(suspect)
    dispatcher.suspects.stop()
    with pytest.raises(Retry):
        await dispatcher.suspects.wait()
    await dispatcher.end(suspect)


async def test_jobs_that_one_crash_interrupts_are_beside_each_other(dispatcher: Dispatcher) -> None:
    innocent, suspect = await dispatcher.start(), await dispatcher.start(OWN, 3)
    assert not dispatcher.suspects.note_interruption(innocent)  # it is no suspect
    await dispatcher.end(innocent)
    assert dispatcher.suspects.note_interruption(suspect)
    dispatcher.clock.now += RECENT_SECONDS + 1
    assert not dispatcher.suspects.note_interruption(suspect)
    running = await dispatcher.start()
    assert dispatcher.suspects.note_interruption(suspect)
    running.recording = True  # it answered before the crash
    dispatcher.clock.now += RECENT_SECONDS + 1
    assert not dispatcher.suspects.note_interruption(suspect)
    await dispatcher.end(running)
    await dispatcher.end(suspect)


async def test_a_job_that_still_reads_its_inputs_is_not_proven(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may begin at any moment. But it cannot be the cause of a crash before that."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    slow = await dispatcher.start(sent=False)
    dispatcher.clock.now += 60.0
    beside, alone = await dispatcher.start(OWN, 3), await dispatcher.start(OWN, 4)
    assert await is_held(dispatcher.begin(alone))
    assert not dispatcher.suspects.note_interruption(beside)
    slow.sent_at = dispatcher.clock()
    assert dispatcher.suspects.note_interruption(beside)
    dispatcher.clock.now += 30.0
    await dispatcher.begin(alone)
    for running in (slow, beside, alone):
        await dispatcher.begin(running)
        await dispatcher.end(running)


async def test_a_job_that_timed_out_may_still_be_the_cause(dispatcher: Dispatcher) -> None:
    left, unsent = await dispatcher.start(), await dispatcher.start(sent=False)
    for running in (left, unsent):
        await dispatcher.begin(running)
        running.task.cancel()
        await asyncio.wait([running.task])
    suspect = await dispatcher.start(OWN, 3)
    await dispatcher.begin(suspect)
    assert dispatcher.suspects.note_interruption(suspect)
    dispatcher.clock.now += 31.0
    assert not dispatcher.suspects.note_interruption(suspect)
    await dispatcher.end(suspect)


async def test_a_crash_during_its_wait_does_not_count_against_a_suspect(dispatcher: Dispatcher) -> None:
    """It begins as soon as the crash has ended the jobs beside it, so Triton may be about to die then."""
    fresh, suspect = await dispatcher.start(), await dispatcher.start(OWN, 4)
    await dispatcher.begin(fresh)
    dispatcher.clock.now += 1.0
    dispatcher.suspects.note_interruption(fresh)
    await dispatcher.end(fresh)
    await dispatcher.begin(suspect)
    assert dispatcher.suspects.note_interruption(suspect)
    dispatcher.clock.now += RECENT_SECONDS + 1
    assert not dispatcher.suspects.note_interruption(suspect)
    await dispatcher.end(suspect)


async def test_a_crash_counts_against_a_suspect_beside_proven_jobs(dispatcher: Dispatcher) -> None:
    """It waited until the job of the other tenant was proven."""
    await dispatcher.start()
    dispatcher.clock.now += 30.0
    suspect = await dispatcher.start(OWN, 4)
    await dispatcher.begin(suspect)
    assert not dispatcher.suspects.note_interruption(suspect)
    for running in [*dispatcher.jobs.values()]:
        await dispatcher.begin(running)
        await dispatcher.end(running)
