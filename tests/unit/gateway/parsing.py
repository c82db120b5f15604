"""Fakes for tests of parsing: a catalogue and pipelines without a database, and workers without processes."""

from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar
from uuid import UUID

from common.tensors import Datatype, Signature
from services.gateway.http.worker_processes import LARGE, Workers
from services.gateway.models.catalogue import Catalogue
from services.gateway.models.pipeline_store import PipelineKey, PipelineReader, StoredPipeline
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


class FakePipelines(PipelineReader):
    """Pipelines of every tenant, and what was looked up."""

    def __init__(self, *stored: StoredPipeline) -> None:
        self.stored = stored
        self.wanted: list[set[PipelineKey]] = []

    async def find_many(self, tenant: UUID, keys: Collection[PipelineKey]) -> dict[PipelineKey, StoredPipeline]:
        self.wanted.append(set(keys))
        found = {PipelineKey(each.name): each for each in self.stored}
        found |= {PipelineKey(each.name, str(each.version)): each for each in self.stored}
        return {key: found[key] for key in keys if key in found}


class FakeWorkers(Workers):
    """Runs functions in this process, and records those that a worker process would run."""

    def __init__(self) -> None:
        self.ran: list[object] = []

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.ran.append(function)
        return function(*args, **kwargs)
