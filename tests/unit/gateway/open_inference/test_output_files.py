"""What an answer with outputs from files holds of the budget for responses."""

import struct
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.tensors import Datatype
from common.views.outputs import OutputTensor, render_elements
from services.gateway.http.limits.response_budget import ResponseBudget
from services.gateway.http.limits.response_limits import LEASE, ResponseLease
from services.gateway.jobs.store import FoundJob
from services.gateway.open_inference.output_files import JSON_BYTES, READ_AHEAD
from services.gateway.open_inference.requests import ResponseFormat
from tests.unit.gateway.parsing import FakeWorkers
from tests.unit.gateway.samples import ROW

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Litestar's own parameters
    from services.gateway.open_inference.routes import respond

MiB = 1024 * 1024
COUNT = 5000
# The elements that take the most JSON for each raw byte.
LONGEST = {
    Datatype.BOOL: b"\x00",
    Datatype.BYTES: b"\x64\x00\x00\x00" + b"\x00" * 100,
    Datatype.UINT8: b"\xff",
    Datatype.UINT16: b"\xff" * 2,
    Datatype.UINT32: b"\xff" * 4,
    Datatype.UINT64: b"\xff" * 8,
    Datatype.INT8: b"\x80",
    Datatype.INT16: b"\x00\x80",
    Datatype.INT32: b"\x00\x00\x00\x80",
    Datatype.INT64: b"\x00\x00\x00\x00\x00\x00\x00\x80",
    Datatype.FP16: struct.pack("<e", -0.000010013580322265625),
    Datatype.BF16: b"\x80\x80",
    Datatype.FP32: struct.pack("<f", -0.000029178392651374452),
    Datatype.FP64: struct.pack("<d", -2.2250738585072014e-308),
}


@dataclass
class Objects:
    """One object, and what the response holds while it is read."""

    content: bytes
    budget: ResponseBudget
    held: int = 0

    async def read(self, _key: str) -> Any:
        self.held = self.budget_held()
        return SimpleNamespace(pieces=self._pieces())

    def budget_held(self) -> int:
        return 128 * MiB - self.budget.free

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield self.content


async def answer(datatype: Datatype, content: bytes, *, binary: bool) -> tuple[Objects, Any, bytes]:
    """Return what was held, the response, and the job's outputs."""
    budget = ResponseBudget(128 * MiB)
    objects = Objects(content, budget)
    count = len(content) // len(LONGEST[datatype])
    output = {"name": "y", "datatype": datatype, "shape": [count], "file": ids.encode(ids.Kind.FILE, UUID(int=1))}
    outputs = msgspec.json.encode([output | {"size": len(content)}])
    request: Any = SimpleNamespace(scope={LEASE: ResponseLease(budget)}, headers={})
    services: Any = SimpleNamespace(objects=objects, workers=FakeWorkers())
    found = FoundJob(ROW, outputs, "none", None, erased=False)
    response: Any = await respond(request, services, found, ResponseFormat("", None, binary), {})
    return objects, response, outputs


@pytest.mark.parametrize("datatype", Datatype)
def test_json_takes_no_more_than_its_bound(datatype: Datatype) -> None:
    raw = LONGEST[datatype] * COUNT
    size = sum(map(len, render_elements(OutputTensor("y", datatype, [COUNT], raw))))
    assert size <= len(raw) * JSON_BYTES[datatype] < size + len(raw) * 2


@pytest.mark.parametrize("datatype", [Datatype.BF16, Datatype.FP16])
def test_no_element_of_two_bytes_takes_more(datatype: Datatype) -> None:
    raw = struct.pack("<65536H", *range(65536))
    tensors = (OutputTensor("y", datatype, [1], raw[at : at + 2]) for at in range(0, len(raw), 2))
    assert max(sum(map(len, render_elements(each))) for each in tensors) < 2 * JSON_BYTES[datatype]


async def test_an_answer_holds_the_most_that_its_json_may_take_and_then_what_it_has() -> None:
    content = LONGEST[Datatype.BF16] * (MiB // 2)
    objects, response, outputs = await answer(Datatype.BF16, content, binary=False)
    assert objects.held == len(outputs) + 13 * MiB + READ_AHEAD
    assert objects.budget_held() == len(response.content) > 11 * MiB


async def test_a_stream_holds_what_it_reads_ahead() -> None:
    objects, response, _ = await answer(Datatype.BF16, LONGEST[Datatype.BF16] * MiB, binary=True)
    assert READ_AHEAD < objects.budget_held() < READ_AHEAD + 1024
    assert b"".join([piece async for piece in response.iterator]).endswith(objects.content)
