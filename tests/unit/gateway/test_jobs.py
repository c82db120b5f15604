"""What comes of a wait for the job that a call asks for, or brings."""

import asyncio
import warnings
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.errors import DatabaseUnavailable
from common.job_view import Links
from common.jobs import Status
from services.gateway.auth import refuse
from services.gateway.errors import Problem
from services.gateway.store import FoundJob, Key, Store
from services.gateway.watch import Watch
from tests.unit.gateway.samples import ROW

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Litestar's own parameters
    from services.gateway.routes.jobs import Desk, await_end, get_job

OVERLOADED = Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", "too many wait")
REVOKED = refuse("it was revoked")


class World:
    """A request, and all that it needs; its job ends while it is waited for."""

    def __init__(self, failure: Exception | None = None, refusal: Exception | None = None) -> None:
        self.failure = failure  # of the wait
        self.refusal = refusal  # of the key, thereafter
        self.row = ROW
        self.user = Key(ids.new(), ids.new())
        self.headers: dict[str, str] = {}
        self.app = SimpleNamespace(state=SimpleNamespace(keyring=self, desk=self.desk))

    async def wait(self, _job_id: UUID, _key: Key, _seconds: float) -> None:
        if self.failure:
            raise self.failure
        self.row = msgspec.structs.replace(ROW, status=Status.SUCCEEDED)

    async def authenticate(self, _header: str | None) -> None:
        if self.refusal:
            raise self.refusal

    async def find_job(self, _job_id: UUID, _tenant_id: UUID) -> FoundJob:
        return FoundJob(self.row, b"[]", "none", None, erased=False)

    @property
    def desk(self) -> Desk:
        return Desk(cast("Any", None), cast("Store", self), cast("Watch", self), Links("", ""))

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def await_end(self) -> FoundJob | None:
        return await await_end(cast("Any", self), ROW, 1.0, self.desk)


async def test_a_job_is_found_at_its_end() -> None:
    found = await World().await_end()
    assert found is not None
    assert found.row.status is Status.SUCCEEDED


@pytest.mark.parametrize(
    ("failure", "refusal"),
    [(OVERLOADED, None), (DatabaseUnavailable(), None), (None, DatabaseUnavailable()), (None, REVOKED)],
)
async def test_a_job_whose_end_may_not_or_can_not_be_told_is_accepted_all_the_same(
    failure: Exception | None, refusal: Exception | None
) -> None:
    assert await World(failure, refusal).await_end() is None


async def test_a_key_that_was_revoked_during_the_wait_is_refused() -> None:
    for refusal, wait in [(None, 1), (REVOKED, 0)]:
        assert await ask(World(refusal=refusal), wait)
    with pytest.raises(Problem) as caught:
        await ask(World(refusal=REVOKED), wait=1)
    assert caught.value is REVOKED


async def ask(world: World, wait: float) -> object:
    given = {"request": world, "job_id": ids.show(ids.Kind.JOB, ROW.id), "wait": wait}
    return await cast("Any", get_job.fn)(**given)
