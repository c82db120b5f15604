"""What a submit holds of the budget for bodies while its inputs are written."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import pytest

from common import ids
from common.jobs.new_job import NewJob
from common.security.ssrf import AddressPolicy
from services.gateway.auth.store import Key
from services.gateway.http.limits.body_limits import BodyBudget, BodyDeadlines, BodyLease
from services.gateway.http.problems import Problem
from services.gateway.jobs.inputs.files import InputFiles
from services.gateway.jobs.inputs.large_input_writer import LargeInputWriter
from services.gateway.jobs.lookups import Lookups
from services.gateway.jobs.queue_limits.limits import QueueLimits
from services.gateway.jobs.submit import Submitter
from tests.unit.gateway.parsing import TRACEPARENT, FakeCatalogue, FakeWorkers

NONE: Any = None
COUNT = 100_000
BODY = b'{"model":"echo","inputs":{"x":[%b]}}' % b",".join([b"1"] * COUNT)
OTHER = ids.new()
PACKED = 4 * COUNT  # FP32


class Written(Exception):
    """The job got to the object store."""


class Writer(LargeInputWriter):
    """Notes how much is held when the inputs are written."""

    def __init__(self, budget: BodyBudget) -> None:
        super().__init__(NONE, NONE, NONE, NONE, max_inline=1024)
        self.held = 0
        self._budget = budget

    @asynccontextmanager
    async def written(self, jobs: Sequence[NewJob]) -> AsyncIterator[list[NewJob]]:
        self.held = self._budget.total - self._budget.free
        if jobs:
            raise Written
        yield []


class NoLimits(QueueLimits):
    def __init__(self) -> None:
        pass

    async def admit(self, *_: object, **__: object) -> None: ...


async def submit(budget: BodyBudget, held: int = len(BODY)) -> int:
    """Return what a submit holds while its inputs are written. `held` are the bytes that it holds before."""
    writer = Writer(budget)
    lookups, policy = Lookups(InputFiles(NONE, NONE, NONE, 2**20, AddressPolicy()), NONE), AddressPolicy()
    submitter = Submitter(
        NONE, FakeCatalogue(), NONE, policy, NoLimits(), NONE, FakeWorkers(), lookups, writer, NONE, NONE
    )
    lease = BodyLease(budget, BodyDeadlines())
    lease.grow(held)
    context = await submitter.make_context(Key(ids.new(), ids.new()), TRACEPARENT)
    with pytest.raises(Written):
        await submitter.submit(BODY, context, lease)
    return writer.held


async def test_packed_inputs_count_while_they_are_written() -> None:
    assert PACKED <= await submit(BodyBudget(2**30)) < PACKED + 200


async def test_a_body_that_is_larger_than_its_inputs_counts_as_it_is() -> None:
    assert await submit(BodyBudget(2**30), held=PACKED + 1000) == PACKED + 1000


@pytest.mark.parametrize(("others", "status"), [(0, HTTPStatus.REQUEST_ENTITY_TOO_LARGE), (300_000, 503)])
async def test_packed_inputs_without_room_are_refused(others: int, status: int) -> None:
    budget = BodyBudget(PACKED if not others else 2 * PACKED)
    budget.take(OTHER, others)
    with pytest.raises(Problem) as caught:
        await submit(budget)
    assert caught.value.status == status
