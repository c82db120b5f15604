"""Fakes for tests of parsing: a catalogue without a database, and workers without processes."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from common.tensors import Datatype, Signature
from services.gateway.http.worker_processes import LARGE, Workers
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.store import ModelVersion

P = ParamSpec("P")
T = TypeVar("T")
MODEL = ModelVersion("echo", "1", True, False, 0, [Signature("x", Datatype.FP32, [-1])], [])
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LENGTHS = {"small": 10, "large": LARGE}  # of a tensor's data, in elements of at least a byte


class FakeCatalogue(Catalogue):
    def __init__(self) -> None:
        self.models = {"echo": [MODEL]}

    async def read(self) -> dict[str, list[ModelVersion]]:
        return self.models


class FakeWorkers(Workers):
    """Runs functions in this process, and records those that a worker process would run."""

    def __init__(self) -> None:
        self.ran: list[object] = []

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.ran.append(function)
        return function(*args, **kwargs)
