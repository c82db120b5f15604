"""A claimed job on a real Triton: renewals, cancels, stops and concurrency."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from common import tensors
from common.job_states import Priority, Status
from common.postgres import database as database_module
from common.postgres.database import Database
from common.rabbitmq.messages import CancelJob, JobsQueued, QueuedJob
from common.settings import INLINE_SIZE
from services.dispatcher.attempts.attempts import Attempts
from services.dispatcher.attempts.lease_renewer import LeaseRenewer
from services.dispatcher.attempts.request_reader import RequestReader
from services.dispatcher.attempts.runner import Runner
from services.dispatcher.attempts.running_job import RunningJob, RunningJobs
from services.dispatcher.attempts.suspects import Suspects
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.control import ControlHandler, WaiterPresence
from services.dispatcher.models.catalogue import Catalogue
from services.dispatcher.models.loads import Load
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.models.shared_loads import SharedLoads
from services.dispatcher.results import result_writer
from services.dispatcher.results.output_files import NOT_STORED, OutputFiles
from services.dispatcher.results.store import OutputsNotStored
from services.dispatcher.settings import MAX_INPUTS
from services.dispatcher.triton.client import TritonClient
from services.gateway.jobs.store import JobStore
from tests.integration.dispatcher.inference import integer
from tests.integration.jobs import LEASE, TRACEPARENT, JobState, lapse, look, make_claimable, submit
from tests.integration.waiting import until, until_blocked
from tests.integration.world import World
from tests.support.inputs_in_rows import NoFiles, NoUrls

SOON = LEASE / 6  # seconds: half of the time between two renewals
LONG = 30_000  # ms
LOCKED = 2000  # ms of a job; until it ends, a test has time to lock its row
MAX_OUTPUTS = 16 * 1024 * 1024  # bytes


class LocalDispatcher:
    """A dispatcher without a broker, and jobs for it."""

    def __init__(self, world: World, triton: TritonClient, model: ServedModel) -> None:
        self.world, self.triton, self.model = world, triton, model
        self.set_lease(LEASE)

    def set_lease(self, lease: float, max_inputs: int = MAX_INPUTS) -> None:
        """Replace all that runs jobs."""
        database, limits = self.world.database, RunLimits(self.world.stores.limits, list)
        self.jobs: RunningJobs = {}
        self.leases, suspects = LeaseRenewer(database, self.jobs, lease), Suspects(self.jobs)
        self.control = ControlHandler(self.leases, WaiterPresence())
        self.claims = Claims(database, limits, worker="w", lease=lease, max_inputs=max_inputs)
        requests = RequestReader(NoFiles(), NoUrls(), MAX_OUTPUTS, INLINE_SIZE)
        attempts = Attempts(self.triton, requests, self.world.recorder, suspects)
        self.runner = Runner(database, self.claims, attempts, self.jobs, suspects, self.world.changes)

    async def submit(self, ms: int, priority: Priority = Priority.NORMAL) -> UUID:
        """Submit a job that takes this long."""
        values: dict[str, Any] = {"model": "work", "tensors": tensors.pack([integer("ms", ms, (1, 1))])}
        return await submit(self.world.database, self.world.tenant, priority=priority, timeout=60.0, **values)

    async def handle(self, job: UUID, priority: Priority = Priority.NORMAL) -> None:
        await self.runner.handle(self.model, priority, JobsQueued([QueuedJob(self.world.tenant, job)]), TRACEPARENT)

    async def start(self, ms: int) -> UUID:
        """Submit a job that takes this long, and return once Triton runs it."""
        await self.handle(job := await self.submit(ms))
        await until(lambda: any(each.sent_at for each in self.jobs.values()), "the inference starts")
        return job

    async def look(self, job: UUID) -> JobState:
        return await look(self.world.database, job)

    async def until_idle(self, seconds: float = SOON) -> None:
        """Return once nothing runs, long before the job would have ended by itself."""
        await until(lambda: not self.jobs, "nothing runs", seconds)
        assert (self.model.concurrency.used, self.model.concurrency.saving, self.claims.inputs.used) == (0, 0, 0)


@pytest.fixture
async def dispatcher(database: Database, tenant: UUID, client: TritonClient) -> AsyncIterator[LocalDispatcher]:
    async def ignore(_model: ServedModel) -> None:
        """There is no broker to consume from."""

    world = World(database, tenant)
    loads = SharedLoads(client, world.stores.loads)
    catalogue = Catalogue(client, world.stores.models, loads, ignore, interval=60.0, slots=0, grace=60.0)
    assert await catalogue.refresh()
    dispatcher = LocalDispatcher(world, client, catalogue.models["work"])
    renewing = asyncio.create_task(dispatcher.leases.run())
    yield dispatcher
    renewing.cancel()
    await dispatcher.runner.stop(0)
    await asyncio.wait([renewing])


async def test_a_cancel_reaches_the_inference_without_waiting_for_a_renewal(dispatcher: LocalDispatcher) -> None:
    job = await dispatcher.start(LONG)
    assert await dispatcher.world.cancel(job) is Status.CANCELING
    await dispatcher.control.handle(CancelJob(job), None)
    await dispatcher.until_idle()
    assert (await dispatcher.look(job)).status is Status.CANCELED


async def test_the_next_renewal_finds_a_cancel_whose_message_was_lost(dispatcher: LocalDispatcher) -> None:
    dispatcher.set_lease(1.0)
    job = await dispatcher.start(LONG)
    assert await dispatcher.world.cancel(job) is Status.CANCELING
    renewing = asyncio.create_task(dispatcher.leases.run())
    await dispatcher.until_idle()
    renewing.cancel()
    assert (await dispatcher.look(job)).status is Status.CANCELED


async def test_a_late_message_of_an_earlier_cancel_has_no_effect(dispatcher: LocalDispatcher) -> None:
    job = await dispatcher.submit(1000)
    assert await dispatcher.world.cancel(job) is Status.CANCELED
    assert await dispatcher.world.retry(job) == {job}
    await dispatcher.handle(job)
    await dispatcher.control.handle(CancelJob(job), None)
    await dispatcher.until_idle()
    assert (await dispatcher.look(job)).status is Status.SUCCEEDED


async def test_the_lease_is_renewed(dispatcher: LocalDispatcher) -> None:
    dispatcher.set_lease(1.0)
    job = await dispatcher.start(LONG)
    first = (await dispatcher.look(job)).lease_until
    assert first is not None
    renewing = asyncio.create_task(dispatcher.leases.run())

    async def outlived() -> bool:
        state = await dispatcher.look(job)
        return state.lease_until is not None and state.now > first and state.lease_until > state.now

    await until(outlived, "the lease holds after its first end")
    renewing.cancel()
    assert (await dispatcher.look(job)).claim == 1


async def test_a_job_whose_claim_is_lost_is_cancelled(dispatcher: LocalDispatcher) -> None:
    job = await dispatcher.start(LONG)
    await lapse(dispatcher.world.database, job)
    await dispatcher.world.sweep()
    assert (await dispatcher.look(job)).status is Status.QUEUED
    dispatcher.leases.request()
    await dispatcher.until_idle()
    state = await dispatcher.look(job)
    assert (state.status, state.attempt, state.error_code) == (Status.QUEUED, 0, "worker_lost")


async def test_a_job_that_outlasts_the_grace_period_is_given_back_uncounted(dispatcher: LocalDispatcher) -> None:
    job = await dispatcher.start(LONG)
    await dispatcher.runner.stop(0.1)
    state = await dispatcher.look(job)
    assert (state.status, state.attempt, state.claim) == (Status.QUEUED, 0, 1)
    assert (state.error_code, state.interruptions) == ("worker_stopped", 0)
    await dispatcher.world.sweep()
    ((claimed,), (attempt,)) = (
        await dispatcher.world.claim([job]),
        await JobStore(dispatcher.world.database).list_attempts(job, dispatcher.world.tenant),
    )
    assert (claimed.attempt, claimed.claim) == (1, 2)
    assert (attempt.status, attempt.error_code) == ("returned", "worker_stopped")


async def test_a_message_is_not_done_before_its_claim_is_committed(dispatcher: LocalDispatcher) -> None:
    job = await dispatcher.submit(1)
    async with dispatcher.world.database.transaction() as other:
        await other.execute("LOCK TABLE jobs IN SHARE MODE")
        handling = asyncio.create_task(dispatcher.handle(job))
        await until_blocked(dispatcher.world.database)
        assert not handling.done()
    await handling
    assert (await dispatcher.look(job)).claim == 1
    await dispatcher.until_idle()


async def test_a_job_that_waits_for_room_leaves_its_slot_to_other_work(dispatcher: LocalDispatcher) -> None:
    dispatcher.set_lease(LEASE, max_inputs=40)  # bytes: room for one job of a queue
    dispatcher.model.concurrency.resize(2)
    first = await dispatcher.start(LONG)
    second = await dispatcher.submit(1)
    waiting = asyncio.create_task(dispatcher.handle(second))
    urgent = await dispatcher.submit(1, Priority.HIGH)
    async with asyncio.timeout(SOON):
        await dispatcher.handle(urgent, Priority.HIGH)
    assert [(await dispatcher.look(job)).claim for job in (first, second, urgent)] == [1, 0, 1]
    assert await dispatcher.world.cancel(first) is Status.CANCELING
    await dispatcher.control.handle(CancelJob(first), None)
    renewing = asyncio.create_task(dispatcher.leases.run())
    await waiting
    await dispatcher.until_idle()
    renewing.cancel()
    assert (await dispatcher.look(first)).status is Status.CANCELED
    assert [(await dispatcher.look(job)).status for job in (second, urgent)] == [Status.SUCCEEDED] * 2


async def test_a_message_whose_job_has_started_starts_another_one(dispatcher: LocalDispatcher) -> None:
    """The message of that one may have started the first."""
    await dispatcher.handle(await dispatcher.submit(1))  # the first message searches in any case
    await dispatcher.until_idle()
    jobs = [await dispatcher.submit(1) for _ in range(2)]
    for _ in jobs:
        await dispatcher.handle(jobs[0])
    await dispatcher.until_idle()
    assert [(await dispatcher.look(job)).claim for job in jobs] == [1, 1]


async def test_a_message_that_finds_a_free_slot_starts_its_own_job(dispatcher: LocalDispatcher) -> None:
    await dispatcher.handle(await dispatcher.submit(1))  # the first message searches in any case
    await dispatcher.until_idle()
    jobs = [await dispatcher.submit(1) for _ in range(2)]
    await dispatcher.handle(jobs[1])
    await dispatcher.until_idle()
    assert [(await dispatcher.look(job)).claim for job in jobs] == [0, 1]


async def test_a_success_raises_the_limit_by_one(dispatcher: LocalDispatcher) -> None:
    concurrency = dispatcher.model.concurrency
    concurrency.limit = 1.0
    await dispatcher.start(1)
    await dispatcher.until_idle()
    assert concurrency.limit == 2.0


async def read_load(dispatcher: LocalDispatcher, job: UUID) -> UUID | None:
    (row,) = await dispatcher.world.database.fetch("SELECT load_id FROM jobs WHERE id = $1", job)
    load: UUID | None = row["load_id"]
    return load


async def test_a_result_names_the_load_that_made_it(dispatcher: LocalDispatcher) -> None:
    load = dispatcher.model.loads["1"]
    job = await dispatcher.start(1)
    await dispatcher.until_idle()
    assert await read_load(dispatcher, job) == load.id


async def test_a_result_names_no_load_if_another_one_was_seen_meanwhile(dispatcher: LocalDispatcher) -> None:
    """It is not known which of them made it."""
    job = await dispatcher.start(LOCKED)
    dispatcher.model.loads["1"] = Load(uuid4(), None)
    await dispatcher.until_idle()
    assert (await dispatcher.look(job)).status is Status.SUCCEEDED
    assert await read_load(dispatcher, job) is None


async def test_the_next_job_begins_while_a_result_is_saved(dispatcher: LocalDispatcher) -> None:
    dispatcher.model.concurrency.resize(1)
    first = await dispatcher.start(LOCKED)
    async with dispatcher.world.database.transaction() as other, asyncio.timeout(SOON):
        await other.fetch("SELECT FROM jobs WHERE id = $1 FOR UPDATE", first)
        second = await dispatcher.submit(1)
        await dispatcher.handle(second)
    await dispatcher.until_idle()
    assert [(await dispatcher.look(job)).status for job in (first, second)] == [Status.SUCCEEDED] * 2


@pytest.fixture
async def hasty(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """A pool with short deadlines. Ask for this after the dispatcher, whose own pool has long ones."""
    monkeypatch.setattr(database_module, "STATEMENT_SECONDS", 1.5)
    monkeypatch.setattr(result_writer, "RETRY_SECONDS", 0.01)
    pool = await Database.connect(database_url, application="tests")
    yield pool
    await pool.close()


async def test_a_cancel_works_while_outputs_are_saved(
    dispatcher: LocalDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(OutputFiles, "save", hang)
    job = await dispatcher.start(1)

    def is_saving(running: RunningJob) -> bool:
        return running.recording and running._step is not None and not running._step.done()

    await until(lambda: any(map(is_saving, dispatcher.jobs.values())), "the result is being saved")
    assert await dispatcher.world.cancel(job) is Status.CANCELING
    await dispatcher.control.handle(CancelJob(job), None)
    await dispatcher.until_idle()
    assert (await dispatcher.look(job)).status is Status.CANCELED


async def test_each_run_whose_outputs_cannot_be_stored_counts(
    dispatcher: LocalDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise OutputsNotStored(NOT_STORED)

    monkeypatch.setattr(OutputFiles, "save", refuse)
    job = await dispatcher.start(1)
    for attempt in (1, 2):
        await dispatcher.until_idle()
        state = await dispatcher.look(job)
        assert (state.status, state.error_code, state.attempt) == (Status.QUEUED, "store_unavailable", attempt)
        assert state.interruptions == 0
        await make_claimable(dispatcher.world.database)
        await dispatcher.handle(job)
    await dispatcher.until_idle()
    state = await dispatcher.look(job)
    assert (state.status, state.error_code, state.attempt) == (Status.FAILED, "store_unavailable", 3)


async def test_the_lease_of_a_job_whose_end_cannot_be_written_is_not_renewed(
    dispatcher: LocalDispatcher, hasty: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, save = asyncio.Event(), OutputFiles.save

    async def save_when_locked(*values: Any) -> None:
        await locked.wait()
        await save(*values)

    monkeypatch.setattr(OutputFiles, "save", save_when_locked)
    monkeypatch.setattr(dispatcher.world.recorder._writer, "_database", hasty)
    job = await dispatcher.start(1)
    async with dispatcher.world.database.transaction(60.0) as other:
        await other.fetch("SELECT FROM jobs WHERE id = $1 FOR UPDATE", job)
        locked.set()
        await dispatcher.until_idle(3 * SOON)  # after all tries to write the end
    assert (await dispatcher.look(job)).status is Status.PROCESSING
