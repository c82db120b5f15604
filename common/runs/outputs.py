"""Renders the outputs of a run: those of its steps, under the names that the pipeline gives them."""

from uuid import UUID

import msgspec

from common import ids
from common.pipelines.references import parse_reference
from common.postgres import sql
from common.postgres.statements import Executor
from common.runs.pipelines import Pipeline
from common.runs.step_inputs import StepInputs, in_thread_if_large
from common.runs.tensor_files import CannotGoOn
from common.tensors import FileContent, Tensor
from common.views.outputs import Output, OutputTensor, render_output

QUERIES = sql.load("common.runs", "outputs.sql")
MAX_OUTPUTS = 16 * 1024 * 1024  # bytes of JSON of a run's outputs, without those in files


async def render_outputs(executor: Executor, pipeline: Pipeline, inputs: StepInputs) -> bytes:
    """Return the outputs of a run as the JSON list of the API. An output in a file stays there.

    Raises CannotGoOn beyond MAX_OUTPUTS, and as `StepInputs.find` does.
    """
    found: list[bytes] = []
    left = MAX_OUTPUTS
    for name, text in pipeline.definition.outputs.items():
        tensor = await inputs.find(parse_reference(text))
        assert tensor is not None, "an output is that of a step"
        shown = Tensor(name, tensor.datatype, tensor.shape, tensor.data)
        if isinstance(shown.data, bytes):
            found.append(await in_thread_if_large(len(shown.data), render_inline, shown, left))
        else:
            found.append(await describe(executor, shown))
        left -= len(found[-1])
    return b"[%b]" % b",".join(found)


def render_inline(tensor: Tensor, limit: int) -> bytes:
    """Return an output with its data. Raises CannotGoOn beyond `limit` bytes, before it needs more memory than that."""
    assert isinstance(tensor.data, bytes)
    rendered = bytearray()
    for piece in render_output(OutputTensor(tensor.name, tensor.datatype, tensor.shape, tensor.data)):
        rendered += piece
        if len(rendered) > limit:
            raise CannotGoOn(f"the outputs of the pipeline exceed {MAX_OUTPUTS} bytes as JSON")
    return bytes(rendered)


async def describe(executor: Executor, tensor: Tensor) -> bytes:
    """Return the JSON of an output in a file. Whoever shows it adds the `url`. Raises CannotGoOn if it was deleted."""
    assert isinstance(tensor.data, FileContent), "outputs of steps are inline, or in files of Charonia"
    file: UUID = tensor.data.file_id
    found = await executor.fetch(QUERIES["find_file"], file)
    if not found:
        raise CannotGoOn(f"the file of output '{tensor.name}' was deleted; submit a new job")
    record = found[0]
    output = Output(
        tensor.name,
        tensor.datatype,
        tensor.shape,
        file=ids.encode(ids.Kind.FILE, file),
        size=record["size"],
        sha256=record["sha256"].hex(),
    )
    return msgspec.json.encode(output)
