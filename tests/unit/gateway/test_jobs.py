"""A submit whose caller would like to wait: the job is accepted, whatever comes of the wait."""

import asyncio
import warnings
from http import HTTPStatus
from typing import Any, cast
from uuid import UUID

import pytest

from common import ids
from common.errors import DatabaseUnavailable
from services.gateway.errors import Problem
from services.gateway.store import Key, Store
from services.gateway.watch import Watch

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Litestar's own parameters
    from services.gateway.routes.jobs import await_end


class World:
    """Nobody can wait here, or look."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.user = Key(ids.new(), ids.new())

    async def wait(self, _job_id: UUID, _key: Key, _seconds: float) -> None:
        raise self.failure

    async def find_job(self, _job_id: UUID, _tenant_id: UUID) -> None:
        raise DatabaseUnavailable

    async def receive(self) -> Any:
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "failure", [Problem(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", "too many wait"), DatabaseUnavailable()]
)
async def test_a_job_that_can_not_be_waited_for_is_accepted_all_the_same(failure: Exception) -> None:
    world = World(failure)
    request, store, watch = cast("Any", world), cast("Store", world), cast("Watch", world)
    assert await await_end(request, ids.new(), 1.0, store, watch) is None
