"""The response to a caller that waits for a job, for every end of the job."""

import asyncio
from http import HTTPStatus
from typing import cast
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.errors import DatabaseUnavailable
from common.job_states import Status
from common.jobs.job import Job
from services.gateway.auth.store import Key
from services.gateway.events.waiters import Waiters
from services.gateway.http.problems import Problem, conflict
from services.gateway.jobs.actions.cancel import Canceler
from services.gateway.jobs.store import FoundJob, JobStore
from services.gateway.jobs.submit import Submitter
from services.gateway.open_inference.inference import STATUS_BY_ERROR, Inference
from tests.unit.gateway.samples import ROW

JOB = ids.encode(ids.Kind.JOB, ROW.id)


class World:
    """The job as found at the end of the wait, or the failure."""

    def __init__(self) -> None:
        self.found: Job | None = msgspec.structs.replace(ROW, status=Status.SUCCEEDED)
        self.failure: Exception | None = None
        self.refusal: Exception | None = None
        self.ended = True
        self.closing = False
        self.is_shared = False
        self.canceled: list[UUID] = []

    async def wait(self, _job_id: UUID, _key: Key, _seconds: float) -> None:
        if self.failure is not None:
            raise self.failure
        if not self.ended:
            await asyncio.Event().wait()

    async def find_job(self, _job_id: UUID, _tenant_id: UUID) -> FoundJob | None:
        return None if self.found is None else FoundJob(self.found, b"[]", "none", None, erased=False)

    async def is_awaited(self, _job: Job) -> bool:
        return self.is_shared

    async def cancel(self, _tenant_id: UUID, job_id: UUID) -> Job:
        self.canceled.append(job_id)
        if self.refusal is not None:
            raise self.refusal
        return ROW

    async def finish(self, *, stays_connected: bool = True) -> FoundJob:
        async def receive() -> dict[str, str]:
            if stays_connected:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        waiters, canceler, store = cast(Waiters, self), cast(Canceler, self), cast(JobStore, self)
        return await Inference(cast(Submitter, None), canceler, store, waiters, 7).await_result(
            ROW, Key(ids.new(), ROW.tenant_id), receive
        )

    async def fail(self, *, stays_connected: bool = True) -> Problem:
        with pytest.raises(Problem) as raised:
            await self.finish(stays_connected=stays_connected)
        return raised.value


@pytest.fixture
def world() -> World:
    return World()


async def test_a_succeeded_job_is_returned(world: World) -> None:
    assert (await world.finish()).row == world.found
    assert world.canceled == []


@pytest.mark.parametrize("refusal", [None, conflict("it has ended"), DatabaseUnavailable()])
async def test_a_disconnect_cancels_the_job(world: World, refusal: Exception | None) -> None:
    world.ended, world.refusal = False, refusal
    assert (await world.fail(stays_connected=False)).code == "client_gone"
    assert world.canceled == [ROW.id]


async def test_a_disconnect_cancels_no_job_that_others_wait_for(world: World) -> None:
    world.ended, world.is_shared = False, True
    assert (await world.fail(stays_connected=False)).code == "client_gone"
    assert world.canceled == []


async def test_without_capacity_the_job_is_canceled(world: World) -> None:
    world.failure = Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", "too many requests wait on this gateway")
    assert await world.fail() is world.failure
    assert world.canceled == [ROW.id]


async def test_without_the_database_the_job_continues(world: World) -> None:
    world.failure = DatabaseUnavailable()
    problem = await world.fail()
    assert (problem.status, problem.headers) == (503, {"Retry-After": "5"})
    assert problem.detail.endswith(f"; {JOB} continues: get it at /v1/jobs/{JOB}")
    assert world.canceled == []


@pytest.mark.parametrize(("closing", "status"), [(False, 504), (True, 503)])
async def test_a_job_that_has_not_ended_continues(world: World, closing: bool, status: int) -> None:
    world.found, world.closing = ROW, closing
    problem = await world.fail()
    assert problem.status == status
    assert f"{JOB} continues" in problem.detail or f"{JOB} did not end within 7 s; it continues" in problem.detail
    assert world.canceled == []


@pytest.mark.parametrize(("code", "status"), [*STATUS_BY_ERROR.items(), ("inference_failed", 500), ("new", 500)])
async def test_a_failure_has_tritons_status(world: World, code: str, status: int) -> None:
    world.found = msgspec.structs.replace(ROW, status=Status.FAILED, error_code=code, error_message="as it was")
    problem = await world.fail()
    assert (problem.status, problem.detail) == (status, "as it was")
    assert ("Retry-After" in problem.headers) == (status == 503)


async def test_every_other_end_is_a_problem(world: World) -> None:
    for ended in (Status.CANCELED, Status.EXPIRED):
        world.found = msgspec.structs.replace(ROW, status=ended)
        problem = await world.fail()
        assert (problem.status, problem.detail) == (409, f"{JOB} is {ended}")
    world.found = None
    assert (await world.fail()).status == 410
