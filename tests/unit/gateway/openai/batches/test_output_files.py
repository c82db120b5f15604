"""The files of a batch are read page by page, and each page has room among the responses."""

import json
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.errors import DatabaseUnavailable
from common.job_states import Status
from services.gateway.http.limits.response_budget import ResponseBudget
from services.gateway.http.limits.response_limits import ResponseLease
from services.gateway.openai.batches import output_files as module
from services.gateway.openai.batches.checks import explain
from services.gateway.openai.batches.output_files import OutputLines
from services.gateway.openai.batches.store import LineRow, RequestStore
from services.gateway.openai.calls.outputs import OutputReader
from services.gateway.openai.calls.record import Endpoint, write_record
from tests.unit.gateway.openai.batches.jobs import ended_job
from tests.unit.gateway.parsing import FakeWorkers

BATCH, TENANT = ids.new(), ids.new()
REQUEST = write_record(Endpoint.CHAT, b'{"model": "llm", "messages": []}')
BUDGET = 100_000


def succeeded(number: int, size: int = 10) -> LineRow:
    outputs = [{"name": "text_output", "datatype": "BYTES", "shape": [1], "data": [f"text {number}" + "x" * size]}]
    return LineRow(number, str(number), None, ended_job(), msgspec.json.encode(outputs), REQUEST)


def refused(number: int) -> LineRow:
    return LineRow(number, str(number), msgspec.json.encode(explain("batch_expired")), None, None, None)


def running(number: int) -> LineRow:
    return LineRow(number, str(number), None, ended_job(Status.PROCESSING), None, None)


class FakeStore(RequestStore):
    """Items without a database. Remembers which were read."""

    def __init__(self, rows: Sequence[LineRow]) -> None:
        self.rows = rows
        self.read: list[list[int]] = []
        self.fails = False

    async def measure_lines(self, batch_id: UUID, start: int, limit: int, *, errors: bool) -> list[int | None]:
        if self.fails:
            raise DatabaseUnavailable
        return [self._measure(row, errors) for row in self.rows[start : start + limit]]

    def _measure(self, row: LineRow, errors: bool) -> int | None:
        if errors:
            return len(row.problem) if row.problem is not None else None
        return len(row.outputs) if row.outputs is not None else None

    async def read_lines(
        self, batch_id: UUID, indexes: Sequence[int], sizes: Sequence[int], *, errors: bool
    ) -> list[LineRow]:
        self.read.append(list(indexes))
        return [self.rows[index] for index in indexes]


def open_lines(store: FakeStore, *, errors: bool = False, budget: int = BUDGET) -> tuple[OutputLines, ResponseLease]:
    lease = ResponseLease(ResponseBudget(budget))
    reader = OutputReader(cast(Any, None))
    return OutputLines(store, reader, FakeWorkers(), lease, TENANT, BATCH, endpoint=Endpoint.CHAT, errors=errors), lease


async def recheck() -> None: ...


async def read_all(store: FakeStore, *, errors: bool = False) -> list[str]:
    lines, _ = open_lines(store, errors=errors)
    content = b"".join([part async for part in lines.send(await lines.read(), recheck)])
    assert not content or content.endswith(b"\n")
    return [json.loads(line)["custom_id"] for line in content.splitlines()]


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCAN", 7)
    monkeypatch.setattr(module, "PAGE_ITEMS", 3)


async def test_each_line_is_in_its_file_in_order() -> None:
    rows = [(succeeded, refused, running)[number % 3](number) for number in range(50)]
    assert await read_all(FakeStore(rows)) == [str(number) for number in range(0, 50, 3)]
    assert await read_all(FakeStore(rows), errors=True) == [str(number) for number in range(1, 50, 3)]


async def test_only_items_with_a_line_are_read() -> None:
    store = FakeStore([*(refused(number) for number in range(30)), succeeded(30)])
    assert await read_all(store) == ["30"]
    assert store.read == [[30]]


async def test_an_empty_file_has_no_lines() -> None:
    assert await read_all(FakeStore([])) == []
    assert await read_all(FakeStore([running(0)])) == []


async def test_a_job_that_runs_again_is_left_out() -> None:
    store = FakeStore([succeeded(0), succeeded(1), succeeded(2)])
    lines, _ = open_lines(store)
    store.rows = [succeeded(0), running(1)._replace(outputs=b"[]"), succeeded(2)]
    assert [json.loads(line)["custom_id"] for line in await lines.read()] == ["0", "2"]


async def test_an_erased_job_keeps_its_line() -> None:
    row = succeeded(0)
    lines, _ = open_lines(FakeStore([row._replace(request=None)]))
    (line,) = await lines.read()
    assert json.loads(line)["error"]["code"] == "erased"


async def test_unreadable_outputs_are_an_error_in_their_line() -> None:
    outputs = msgspec.json.encode([{"name": "other", "datatype": "BYTES", "shape": [1], "data": ["a"]}])
    lines, _ = open_lines(FakeStore([succeeded(0)._replace(outputs=outputs), succeeded(1)]))
    found = [json.loads(line)["response"] for line in await lines.read()]
    assert [each["status_code"] for each in found] == [500, 200]
    assert found[0]["body"]["error"]["code"] == "unreadable_output"


async def test_a_page_holds_its_bytes_until_it_is_sent() -> None:
    lines, lease = open_lines(FakeStore([succeeded(number, 5000) for number in range(4)]))
    budget = lease._budget
    first = await lines.read()
    assert budget.free <= BUDGET - sum(map(len, first))
    sending = lines.send(first, recheck)
    await anext(sending)
    assert budget.free < BUDGET
    async for _ in sending:
        continue
    lease.release()
    assert budget.free == BUDGET


async def test_a_file_that_breaks_off_is_incomplete() -> None:
    store = FakeStore([succeeded(number) for number in range(20)])
    lines, lease = open_lines(store)
    sending = lines.send(await lines.read(), recheck)
    await anext(sending)
    store.fails = True
    async for _ in sending:
        continue
    assert lease.is_cut
