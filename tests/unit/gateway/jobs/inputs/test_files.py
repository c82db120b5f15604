"""What a submit looks up about its files ends with the submit."""

import asyncio
from http import HTTPStatus
from uuid import UUID

import pytest

from common.errors import StoreUnavailable
from services.gateway.http.problems import Problem
from services.gateway.jobs.inputs.locations import gather_within, limit_seconds

FIRST, SECOND = UUID(int=1), UUID(int=2)
DONE = (UUID(int=3), UUID(int=4))


class Work:
    """Waits for ever, and notes when it is cancelled."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.cancelled = False

    async def wait(self) -> int:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return 0


async def fail(after: Work) -> int:
    await after.began.wait()
    raise StoreUnavailable("away")


async def test_results_come_by_key() -> None:
    assert await gather_within(5.0, {FIRST: return_one(), SECOND: return_one()}) == {FIRST: 1, SECOND: 1}


async def test_an_error_ends_the_other_reads() -> None:
    work = Work()
    with pytest.raises(StoreUnavailable, match="away"):
        await gather_within(5.0, {FIRST: work.wait(), SECOND: fail(work)})
    assert work.cancelled


async def return_one() -> int:
    return 1


async def test_the_deadline_ends_all_reads_and_says_how_many_are_possible() -> None:
    work = Work()
    for others, advice in [({}, "only 0 of 1 .* within 0.01 s; try again later$"), (DONE, "with at most 2 of them")]:
        with pytest.raises(Problem, match=advice) as caught:
            await gather_within(0.01, {each: return_one() for each in others} | {FIRST: work.wait()})
        assert caught.value.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert work.cancelled


def test_the_deadline_grows_with_the_count_up_to_a_bound() -> None:
    assert [limit_seconds(count) for count in (0, 100, 10_000, 1_000_000)] == [20.0, 21.0, 120.0, 120.0]


async def test_a_cancel_ends_all_reads() -> None:
    work = Work()
    gathering = asyncio.create_task(gather_within(5.0, {FIRST: work.wait()}))
    await work.began.wait()
    gathering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathering
    assert work.cancelled
