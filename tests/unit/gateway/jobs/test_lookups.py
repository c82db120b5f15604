"""What submits look up besides models."""

from typing import Any, cast
from uuid import UUID

import msgspec
import pytest

from common import ids
from common.locations.location import Location
from common.security.ssrf import AddressPolicy
from services.gateway.http.problems import Problem
from services.gateway.jobs.inputs.files import InputFiles
from services.gateway.jobs.inputs.references import KnownFile, KnownFiles
from services.gateway.jobs.lookups import Lookups
from services.gateway.jobs.parse import SubmitContext, parse_job
from services.gateway.models.pipeline_store import PipelineKey
from tests.unit.gateway.parsing import MODEL, TRACEPARENT, FakePipelines
from tests.unit.gateway.stored_pipelines import new_stored

FILE = ids.new()
BODY = msgspec.json.encode(
    {"model": "chain", "inputs": {"x": {"file": ids.encode(ids.Kind.FILE, FILE), "shape": [1]}, "rows": [[1.0, 2.0]]}}
)


class FakeFiles(InputFiles):
    def __init__(self) -> None:
        self.wanted: list[set[UUID | Location]] = []

    async def add_to(self, context: SubmitContext, needed: Any) -> SubmitContext:
        self.wanted.append(set(needed))
        return context._replace(files=KnownFiles({each: KnownFile(4) for each in needed}, 1000))


async def parse(pipelines: FakePipelines, files: FakeFiles, body: bytes = BODY) -> Any:
    async def parse(context: SubmitContext) -> Any:
        return parse_job(body, context)

    context = SubmitContext(ids.new(), TRACEPARENT, {"echo": [MODEL]}, AddressPolicy(), max_tensor=1000)
    return await Lookups(files, pipelines).parse(parse, context)


async def test_a_pipeline_is_looked_up_before_the_files_of_its_inputs() -> None:
    pipelines, files = FakePipelines(new_stored()), FakeFiles()
    run = await parse(pipelines, files)
    assert (run.is_run, [file.id for file in run.files]) == (True, [FILE])
    assert (pipelines.wanted, files.wanted) == ([{PipelineKey("chain")}], [{FILE}])


async def test_a_job_of_a_model_looks_up_nothing() -> None:
    none = cast(Any, None)
    assert not (await parse(none, none, b'{"model": "echo", "inputs": {"x": [1.0]}}')).is_run


async def test_an_unknown_name_is_looked_up_once() -> None:
    pipelines = FakePipelines()
    with pytest.raises(Problem, match="model 'chain' not found"):
        await parse(pipelines, FakeFiles())
    assert pipelines.wanted == [{PipelineKey("chain")}]
