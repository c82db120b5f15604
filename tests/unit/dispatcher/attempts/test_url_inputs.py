"""A job that fetches holds neither a slot nor room, and leaves nothing behind however it ends."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

import msgspec
import pytest

from common.job_states import Priority
from common.tensors import Tensor
from services.dispatcher.attempts import url_inputs
from services.dispatcher.attempts.running_job import RunningJob
from services.dispatcher.attempts.url_inputs import UrlInputs
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.fetch_permits import USUAL
from services.dispatcher.claims.input_budget import Room, name_fetched
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.store import LimitStore
from services.dispatcher.inputs.fetched import FetchedContent
from services.dispatcher.inputs.url_fetcher import UrlFetcher
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.triton.errors import InferenceError
from tests.unit.dispatcher.jobs import claimed, make_running
from tests.unit.fake_database import FakeDatabase

SIZE, MAX_INPUTS = 3000, 4000
SHORT = 0.05  # seconds: a wait that ends in vain


class FakeContent(FetchedContent):
    def __init__(self) -> None:
        self.size = SIZE


class FakeFetcher(UrlFetcher):
    """Fetches one content once it is allowed to, and counts those that are not removed."""

    def __init__(self) -> None:
        self.allowed = asyncio.Event()
        self.held = 0

    @asynccontextmanager
    async def fetch(
        self, tenant_id: UUID, inputs: Sequence[Tensor], timeout: float
    ) -> AsyncIterator[dict[str, FetchedContent]]:
        self.held += 1
        try:
            await self.allowed.wait()
            yield {"x": FakeContent()}
        finally:
            self.held -= 1


class Stage:
    """The stage of a dispatcher whose model has one slot."""

    def __init__(self) -> None:
        database = FakeDatabase()
        limits = RunLimits(LimitStore(database), list)
        self.fetcher = FakeFetcher()
        self.claims = Claims(database, limits, worker="w", lease=60.0, max_inputs=MAX_INPUTS)
        self.model = ServedModel("echo", asyncio.Event())
        self.model.available.set()
        self.inputs = UrlInputs(self.fetcher, self.claims)

    async def start(self, tenant: UUID | None = None) -> "Job":
        """Start a job with a slot, and let it fetch."""
        found = claimed()
        if tenant is not None:
            found = msgspec.structs.replace(found, tenant_id=tenant)
        probe = await self.model.acquire(Priority.NORMAL)
        job = Job(self, make_running(found, self.model, is_probe=probe))
        await asyncio.sleep(0)
        return job

    def check_free(self) -> None:
        assert (self.fetcher.held, self.model.concurrency.used, self.claims.inputs.used) == (0, 0, 0)
        assert self.claims.fetch_permits._permits.free == self.claims.fetch_permits._permits.total


class Job:
    """A job that runs until it may end."""

    def __init__(self, stage: Stage, running: RunningJob) -> None:
        self.stage, self.running = stage, running
        self.ready, self.may_end = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        try:
            async with AsyncExitStack() as held:
                await held.enter_async_context(self.stage.inputs.fetch(self.running, []))
                self.ready.set()
                await self.may_end.wait()
        finally:
            self.running.held.close()


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_nothing_is_held_while_jobs_fetch(stage: Stage) -> None:
    jobs = [await stage.start() for _ in range(4)]
    assert (stage.fetcher.held, stage.model.concurrency.used, stage.claims.inputs.used) == (4, 0, 0)
    stage.fetcher.allowed.set()
    for job in jobs:
        await job.ready.wait()
        assert (stage.model.concurrency.used, stage.claims.inputs.used) == (1, SIZE)
        assert not any(other.ready.is_set() for other in jobs[jobs.index(job) + 1 :])
        job.may_end.set()
        await job.task
    stage.check_free()


async def test_a_tenant_fetches_a_bounded_number_of_inputs(stage: Stage) -> None:
    tenant = claimed().tenant_id
    jobs = [await stage.start(tenant) for _ in range(USUAL + 2)]
    assert stage.fetcher.held == USUAL
    jobs.append(await stage.start())
    assert stage.fetcher.held == USUAL + 1
    stage.fetcher.allowed.set()
    for job in jobs:
        job.may_end.set()
    await asyncio.gather(*(job.task for job in jobs))
    stage.check_free()


@pytest.mark.parametrize("place", ["fetch permit", "fetch", "room", "slot", "inference"])
async def test_a_canceled_job_leaves_nothing(stage: Stage, place: str) -> None:
    others = []
    if place == "fetch permit":
        tenant = claimed().tenant_id
        others = [await stage.start(tenant) for _ in range(USUAL)]
        job = await stage.start(tenant)
    elif place == "room":
        others = [await stage.start()]
        stage.fetcher.allowed.set()
        await others[0].ready.wait()
        stage.model.concurrency.resize(2)
        job = await stage.start()
    else:
        job = await stage.start()
    if place == "slot":
        await stage.model.acquire(Priority.NORMAL)
    if place in ("slot", "inference"):
        stage.fetcher.allowed.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert job.ready.is_set() == (place == "inference")
    for each in (job, *others):
        each.task.cancel()
        await asyncio.wait([each.task])
    if place == "slot":
        stage.model.concurrency.release()
    stage.check_free()


@pytest.mark.parametrize("place", ["fetch permit", "room", "slot"])
async def test_a_job_that_waits_too_long_goes_back_to_its_queue(
    stage: Stage, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, others = claimed().tenant_id, []
    if place == "fetch permit":
        others = [await stage.start(tenant) for _ in range(USUAL)]
    elif place == "room":
        others = [await stage.start()]
        stage.fetcher.allowed.set()
        await others[0].ready.wait()
        stage.model.concurrency.resize(2)
    monkeypatch.setattr(url_inputs, "WAIT_SECONDS", SHORT)
    job = await stage.start(tenant)
    if place == "slot":
        await stage.model.acquire(Priority.NORMAL)
        stage.fetcher.allowed.set()
    with pytest.raises(InferenceError) as caught:
        await job.task
    assert (caught.value.failure.code, caught.value.refused) == ("input_url_waiting", True)
    for each in others:
        each.task.cancel()
        await asyncio.wait([each.task])
    if place == "slot":
        stage.model.concurrency.release()
    stage.check_free()


async def pass_steps() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_job_without_a_slot_takes_no_room_from_others(stage: Stage) -> None:
    job = await stage.start()
    stage.model.available.clear()
    stage.fetcher.allowed.set()
    await pass_steps()
    assert (job.ready.is_set(), stage.claims.inputs.used) == (False, 0)
    stage.model.available.set()
    await job.ready.wait()
    assert stage.claims.inputs.used == SIZE
    job.may_end.set()
    await job.task
    stage.check_free()


async def test_a_job_that_loses_its_room_while_it_waits_for_a_slot_waits_again(stage: Stage) -> None:
    other, queue = ("other", Priority.NORMAL), ("echo", Priority.NORMAL)
    job = await stage.start()
    first, second = (stage.claims.inputs.reserve(each) for each in (queue, other))
    stage.fetcher.allowed.set()
    stage.claims.inputs._take(name_fetched(job.running.job), Room(1, 0))  # another fetched job runs
    await pass_steps()
    assert (job.ready.is_set(), stage.model.concurrency.used) == (False, 0)  # its slot is free for others
    stage.model.available.clear()
    stage.claims.inputs.release(queue, first)
    stage.claims.inputs.release(other, second)
    await pass_steps()
    assert not job.ready.is_set()
    third = stage.claims.inputs.reserve(other)
    stage.claims.inputs.reserve(queue)
    stage.model.available.set()
    await pass_steps()
    assert (job.ready.is_set(), stage.model.concurrency.used) == (False, 0)
    stage.claims.inputs.release(name_fetched(job.running.job), Room(1, 0))
    await job.ready.wait()
    stage.claims.inputs.release(other, third)
    stage.claims.inputs.release(queue, first)
    job.may_end.set()
    await job.task
    stage.check_free()
