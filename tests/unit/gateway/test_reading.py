"""Bodies are read where they hold nobody up."""

from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

import msgspec
import pytest

from common import ids
from common.addresses import Policy
from common.tensors import Datatype, Signature
from services.gateway.bodies import Items, Patience
from services.gateway.catalogue import Catalogue
from services.gateway.idempotency_store import Label
from services.gateway.items import list_items
from services.gateway.reading import Url, read_infer, read_job
from services.gateway.store import ModelVersion
from services.gateway.submit import Submitter
from services.gateway.workers import LARGE, Workers

P = ParamSpec("P")
T = TypeVar("T")
MODEL = ModelVersion("echo", "1", True, False, 0, [Signature("x", Datatype.FP32, [-1])], [])
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LENGTHS = {"small": 10, "large": LARGE}  # of a tensor's data, in elements of at least a byte


class Shelf(Catalogue):
    def __init__(self) -> None:
        self.models = {"echo": [MODEL]}

    async def read(self) -> dict[str, list[ModelVersion]]:
        return self.models


class Aside(Workers):
    """Notes what would be done in another process."""

    def __init__(self) -> None:
        self.done: list[object] = []

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.done.append(function)
        return function(*args, **kwargs)


@pytest.fixture
def aside() -> Aside:
    return Aside()


@pytest.fixture
def submitter(aside: Aside) -> Submitter:
    none = cast(Any, None)
    return Submitter(none, Shelf(), none, Policy(), none, none, aside)


@pytest.mark.parametrize("size", LENGTHS)
async def test_a_large_job_is_read_beside_the_loop(submitter: Submitter, aside: Aside, size: str) -> None:
    body = msgspec.json.encode({"model": "echo", "inputs": {"x": [0] * LENGTHS[size]}})
    job = await submitter.read(body, await submitter.ask(ids.new(), TRACEPARENT, Label("key", b"digest")))
    assert (job.model, job.idempotency_key) == ("echo", "key")
    assert aside.done == ([read_job] if size == "large" else [])


@pytest.mark.parametrize("size", LENGTHS)
async def test_a_large_infer_call_is_read_beside_the_loop(submitter: Submitter, aside: Aside, size: str) -> None:
    count = LENGTHS[size]
    body = msgspec.json.encode(
        {"inputs": [{"name": "x", "shape": [count], "datatype": "FP32", "data": [0] * count}], "id": "mine"}
    )
    asked = await submitter.ask(ids.new(), TRACEPARENT)
    job, wanted = await submitter.read_infer(body, Url("echo", None, None, []), asked)
    assert (job.model, wanted.id) == ("echo", "mine")
    assert aside.done == ([read_infer] if size == "large" else [])


@pytest.mark.parametrize("size", LENGTHS)
async def test_a_large_list_is_cut_beside_the_loop(aside: Aside, size: str) -> None:
    body = b"[" + b"0," * LENGTHS[size] + b"0]"
    items = [item async for item in Items(cast(Any, Arriving(body)), 10 * LARGE, aside)]
    assert items[:10] == ["0"] * 10
    assert aside.done == ([list_items] if size == "large" else [])


class Arriving:
    """A request with this body."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.headers = {"content-type": "application/json"}
        self.scope: dict[str, object] = {}
        budget = SimpleNamespace(grow=lambda scope, size: None)
        self.app = SimpleNamespace(state=SimpleNamespace(budget=budget, patience=Patience()))

    async def stream(self) -> AsyncIterator[bytes]:
        yield self.body
