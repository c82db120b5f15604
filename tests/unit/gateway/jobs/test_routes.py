"""Waiting for a job in a submit and in a get, and refusals."""

import asyncio
import warnings
from http import HTTPStatus
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.errors import DatabaseUnavailable
from common.job_states import Status
from common.runs.pipelines import Pipelines
from common.views.job import JobUrls, JobView
from services.gateway.auth.authentication import Authenticator, Connection, unauthorized
from services.gateway.auth.store import Key
from services.gateway.events.waiters import Waiters
from services.gateway.http.problems import LATER, Problem
from services.gateway.jobs.runs.retry import Refusal
from services.gateway.jobs.runs.views import RunViewer
from services.gateway.jobs.store import FoundJob, JobStore
from services.gateway.jobs.wait_reasons import WaitExplainer
from services.gateway.models.store import ModelStore
from services.gateway.models.workloads import WorkloadReader, Workloads
from tests.unit.fake_database import FakeDatabase
from tests.unit.gateway.samples import ROW

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Litestar's own parameters
    from services.gateway.jobs.dependencies import JobServices
    from services.gateway.jobs.read_routes import get_job, lack_outputs
    from services.gateway.jobs.routes import await_end, refuse_retry

OVERLOADED = Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", "too many wait")
REVOKED = unauthorized("it was revoked")


class World:
    """A request and its services. Its job ends during the wait."""

    def __init__(self, failure: Exception | None = None, refusal: Exception | None = None) -> None:
        self.failure = failure  # of the wait
        self.refusal = refusal  # of the key, after the wait
        self.row = ROW
        self.user = Key(ids.new(), ids.new())
        self.headers: dict[str, str] = {}

    @property
    def services(self) -> JobServices:
        none = cast("Any", None)
        return JobServices(
            authenticator=FakeAuthenticator(self),
            store=FakeStore(self),
            submitter=none,
            canceler=none,
            retrier=none,
            eraser=none,
            waiters=FakeWaiters(self),
            events=none,
            waits=WaitExplainer(NoWorkloads(ModelStore(FakeDatabase()))),
            runs=RunViewer(FakeDatabase(), Pipelines()),
            signer=none,
            urls=JobUrls("", ""),
        )

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def await_end(self) -> JobView | None:
        return await await_end(cast("Any", self), ROW, 1.0, self.services)


class FakeWaiters(Waiters):
    def __init__(self, world: World) -> None:
        self._world = world

    async def wait(self, job_id: UUID, key: Key, seconds: float) -> None:
        if self._world.failure:
            raise self._world.failure
        self._world.row = msgspec.structs.replace(ROW, status=Status.SUCCEEDED)


class FakeAuthenticator(Authenticator):
    def __init__(self, world: World) -> None:
        self._world = world

    async def recheck(self, connection: Connection) -> None:
        if self._world.refusal:
            raise self._world.refusal


class FakeStore(JobStore):
    def __init__(self, world: World) -> None:
        self._world = world

    async def find_job(self, job_id: UUID, tenant_id: UUID, largest: int = 0) -> FoundJob:
        return FoundJob(self._world.row, b"[]", "none", None, erased=False)


class NoWorkloads(WorkloadReader):
    async def read(self) -> Workloads:
        return Workloads(ROW.created_at, {}, {}, {}, ())


async def test_an_ended_job_is_returned() -> None:
    found = await World().await_end()
    assert found is not None
    assert found.status is Status.SUCCEEDED


@pytest.mark.parametrize(
    ("failure", "refusal"),
    [(OVERLOADED, None), (DatabaseUnavailable(), None), (None, DatabaseUnavailable()), (None, REVOKED)],
)
async def test_a_job_whose_end_cannot_be_read_is_still_accepted(
    failure: Exception | None, refusal: Exception | None
) -> None:
    assert await World(failure, refusal).await_end() is None


async def test_a_key_revoked_during_the_wait_is_refused() -> None:
    for refusal, wait in [(None, 1), (REVOKED, 0)]:
        assert await ask(World(refusal=refusal), wait)
    with pytest.raises(Problem) as caught:
        await ask(World(refusal=REVOKED), wait=1)
    assert caught.value is REVOKED


async def ask(world: World, wait: float) -> object:
    given = {"request": world, "job_id": ids.encode(ids.Kind.JOB, ROW.id), "wait": wait, "services": world.services}
    return await cast("Any", get_job.fn)(**given)


FOUND = FoundJob(ROW, None, "none", None, erased=False)
STEPS_NOT_ENDED, STEPS_REMOVED = Refusal("steps_not_ended", "try again soon"), Refusal("steps_removed", "deleted")


@pytest.mark.parametrize(
    ("refused", "passes"),
    [
        (refuse_retry(FOUND, STEPS_NOT_ENDED), True),
        (refuse_retry(FOUND, STEPS_REMOVED), False),
        (refuse_retry(FOUND, None), False),
        (lack_outputs(Status.PROCESSING), True),
        (lack_outputs(Status.FAILED), False),
    ],
)
def test_a_refusal_whose_cause_passes_says_when_to_repeat(refused: Problem, passes: bool) -> None:
    assert refused.headers == (LATER if passes else {})


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELED, Status.EXPIRED])
def test_a_job_without_outputs_is_not_an_unknown_one(status: Status) -> None:
    refused = lack_outputs(status)
    assert (refused.status, refused.code) == (404, "no_outputs")
    assert lack_outputs(None).code == "not_found"
