"""Results are read page by page. A response that cannot go on stays incomplete."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.errors import DatabaseUnavailable
from common.views.job import JobUrls
from services.gateway.auth.authentication import unauthorized
from services.gateway.batches.results import LINE_BYTES, PAGE_BYTES, PAGE_ITEMS, ResultReader, cut_page
from services.gateway.batches.schemas import ItemProblem
from services.gateway.batches.store import BatchStore, ResultRow
from services.gateway.http.limits import response_budget
from services.gateway.http.limits.response_budget import ResponseBudget
from services.gateway.http.limits.response_limits import ResponseLease
from tests.unit.gateway.samples import ROW

TENANT = ids.new()
LARGE = PAGE_BYTES + 1
PROBLEM = ItemProblem("urn:charonia:problem:invalid_request", "wrong", [])


class FakeStore(BatchStore):
    """Results of these sizes. Those without a size are refused items."""

    def __init__(self, *sizes: int, failing_at: int = -1) -> None:
        self.sizes = sizes
        self.failing_at = failing_at
        self.pages: list[tuple[int, int]] = []  # from an index, so many

    async def measure_results(self, _batch_id: UUID, start: int, limit: int) -> list[int]:
        if start == self.failing_at:
            raise DatabaseUnavailable
        return [*self.sizes[start : start + limit]]

    async def read_results(self, _batch_id: UUID, start: int, sizes: Sequence[int]) -> list[ResultRow]:
        count = len(sizes)
        self.pages.append((start, count))
        refused = msgspec.json.encode(PROBLEM)
        return [
            ResultRow(number, None, None, ROW, b'["%b"]' % (b"x" * size))
            if (size := self.sizes[number])
            else ResultRow(number, "name", refused, None, None)
            for number in range(start, start + count)
        ]


def make_reader(store: FakeStore, lease: ResponseLease) -> ResultReader:
    return ResultReader(store, JobUrls("", ""), lease, TENANT, ids.new())


async def accept() -> None:
    """Find that the key is valid."""


async def refuse() -> None:
    raise unauthorized("it was revoked")


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ([], 0),
        ([0, 0, 0], 3),
        ([LARGE], 1),
        ([LARGE, 1], 1),
        ([1, LARGE], 1),
        ([PAGE_BYTES // 2] * 3, 2),
        ([0, LARGE, 0], 2),
    ],
)
def test_a_page_has_a_limit_of_bytes_but_at_least_one_result(sizes: list[int], count: int) -> None:
    assert cut_page(sizes) == count


async def test_the_lease_holds_one_page_at_a_time() -> None:
    budget, store = ResponseBudget(4 * LARGE), FakeStore(10, LARGE, *[10] * PAGE_ITEMS, 0)
    lease = ResponseLease(budget)
    reader = make_reader(store, lease)
    held, received = [], b""
    async for part in reader.send(0, await reader.read(0), accept):
        received += part
        held.append(budget.free)
    assert store.pages == [(0, 1), (1, 1), (2, PAGE_ITEMS), (2 + PAGE_ITEMS, 1)]
    sizes = [10 + LINE_BYTES, LARGE + LINE_BYTES, PAGE_ITEMS * (10 + LINE_BYTES), LINE_BYTES]
    assert held == [4 * LARGE - size for size in sizes for _ in range(2)]
    assert budget.free == 4 * LARGE
    lines = [msgspec.json.decode(line) for line in received.splitlines()]
    assert [line["index"] for line in lines] == list(range(PAGE_ITEMS + 3))
    assert (lines[-1]["custom_id"], lines[-1]["job"], lines[-1]["error"]) == (
        "name",
        None,
        msgspec.to_builtins(PROBLEM),
    )
    assert not lease.is_cut


async def test_a_removed_job_leaves_its_line() -> None:
    class Removed(FakeStore):
        async def read_results(self, _batch_id: UUID, start: int, sizes: Sequence[int]) -> list[ResultRow]:
            return [ResultRow(number, "name", None, None, None) for number in range(start, start + len(sizes))]

    (line,) = await make_reader(Removed(1), ResponseLease(ResponseBudget(LARGE))).read(0)
    found = msgspec.json.decode(line)
    assert (found["job"], found["error"]["type"]) == (None, "urn:charonia:problem:not_found")


async def test_a_result_that_grows_while_the_page_waits_for_room_is_measured_again() -> None:
    class Growing(FakeStore):
        async def read_results(self, batch_id: UUID, start: int, sizes: Sequence[int]) -> list[ResultRow]:
            measured, self.sizes = self.sizes, (10, LARGE, 10)
            rows = await super().read_results(batch_id, start, sizes)
            return [row for row in rows if self.sizes[row.number] <= measured[row.number]]

    budget, store = ResponseBudget(4 * LARGE), Growing(10, 10, 10)
    reader = make_reader(store, ResponseLease(budget))
    for start, pages, free in [(0, [(0, 3)], 3 * (10 + LINE_BYTES)), (1, [(1, 1)], LARGE + LINE_BYTES)]:
        store.pages = []
        assert [msgspec.json.decode(line)["index"] for line in await reader.read(start)] == [start]
        assert (store.pages, 4 * LARGE - budget.free) == (pages, free)
    store.sizes = (10, 10, 10)
    assert [msgspec.json.decode(line)["index"] for line in await reader.read(1)] == [1]
    assert store.pages == [(1, 1), (1, 2), (1, 1)]


@pytest.mark.parametrize("reason", ["the key", "the database", "no room"])
async def test_a_response_that_cannot_go_on_is_cut_after_whole_lines(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_budget, "WAIT_SECONDS", 0.01)
    budget, store = ResponseBudget(4 * LARGE), FakeStore(LARGE, 3 * LARGE)
    store.failing_at = 1 if reason == "the database" else -1
    lease = ResponseLease(budget)
    reader = make_reader(store, lease)
    first = await reader.read(0)
    if reason == "no room":
        await ResponseLease(budget).reserve(ids.new(), 2 * LARGE)
    parts = [part async for part in reader.send(0, first, refuse if reason == "the key" else accept)]
    assert b"".join(parts) == first[0] + b"\n"
    assert lease.is_cut


async def test_a_client_that_reads_too_slowly_gets_nothing_more() -> None:
    lease = ResponseLease(ResponseBudget(4 * LARGE))
    reader = make_reader(store := FakeStore(LARGE, LARGE, LARGE), lease)
    sending = reader.send(0, await reader.read(0), accept)
    await anext(sending)
    lease.cut()
    assert [part async for part in sending] == [b"\n"]
    assert len(store.pages) <= 2
