"""Reads what the steps of a run refer to: inputs of the run, and outputs of other steps."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeVar
from uuid import UUID

from common import tensors
from common.jobs.run import Run
from common.pipelines.definition import StepDefinition
from common.pipelines.elements import InvalidElements, gather, gather_nothing
from common.pipelines.references import PipelineReference, parse_reference
from common.pipelines.run_state import Place
from common.postgres import statements
from common.postgres.database import Connection
from common.runs.divided_tensor import DividedTensor, Parts
from common.runs.pipelines import Pipeline
from common.runs.step_outputs import StepOutputs
from common.runs.tensor_files import CannotGoOn, TensorFiles
from common.tensors import FileContent, Tensor

STATEMENTS = statements.load("common.runs", "step_inputs.sql")
P = ParamSpec("P")
T = TypeVar("T")

LARGE = 256 * 1024
MAX_JOINED = 64 * 1024 * 1024  # bytes of an output of all elements of a step, which are in memory to be joined
MAX_BITE = 8 * 1024 * 1024  # bytes of inputs of the jobs that one transaction makes of a step; at least one is made


@contextmanager
def starting(step: str) -> Iterator[None]:
    """Raise CannotGoOn with this step if it has no inputs, or if they cannot be divided."""
    try:
        yield
    except (InvalidElements, CannotGoOn) as error:
        raise CannotGoOn(str(error), step) from error


class StepInputs:
    """The tensors of one locked run. Each is read once. Without `files`, none in a file may be divided or joined."""

    def __init__(self, connection: Connection, run: Run, pipeline: Pipeline, files: TensorFiles | None) -> None:
        self._connection = connection
        self._run = run
        self._pipeline = pipeline
        self._files = files
        self._outputs: dict[str, StepOutputs] = {}
        self._joined: dict[PipelineReference, Tensor] = {}
        self._inputs = {tensor.name: tensor for tensor in tensors.unpack(run.tensors)}

    async def find(self, reference: PipelineReference) -> Tensor | None:
        """Return a tensor under its own name. None: an optional input that the run does not have.

        What was joined and is too large for a row is in a file of the run. Raises CannotGoOn if an output is gone, or
        if those of the elements cannot be joined, and StoreUnavailable.
        """
        if reference.step is None:
            return self._inputs.get(reference.name)
        if self._pipeline.definition.steps[reference.step].for_each is None:
            return await self._find_outputs(reference.step).read(0, reference.name)
        if reference not in self._joined:
            self._joined[reference] = await self._join(reference.step, reference.name)
        return self._joined[reference]

    async def read(self, step: StepDefinition) -> dict[str, Tensor]:
        """Return the inputs of a step by name, without the one that it divides. Raises as `find` does."""
        found: dict[str, Tensor] = {}
        for name, text in step.inputs.items():
            tensor = None if name == step.for_each else await self.find(parse_reference(text))
            if tensor is not None:
                found[name] = Tensor(name, tensor.datatype, tensor.shape, tensor.data)
        return found

    async def count(self, step: StepDefinition) -> int:
        """Return how many elements a step has. Raises InvalidElements and CannotGoOn."""
        return 1 if step.for_each is None else await self._divide(step.inputs[step.for_each]).count()

    async def list_elements(
        self, step: StepDefinition, place: Place, wanted: range
    ) -> tuple[Sequence[list[Tensor]], Place]:
        """Return the inputs of each of the wanted elements, or of the first ones, and the place behind them.

        `place` is where the first one begins, as far as is known. Raises as `find` does.
        """
        inputs = await self.read(step)
        if step.for_each is None:
            return [[*inputs.values()]], place
        divided = self._divide(step.inputs[step.for_each])
        if place.element != wanted.start:  # a later release, or a retry, does not know it
            place = await divided.find(wanted.start, MAX_BITE)
        same = sum(len(tensor.data) for tensor in inputs.values() if isinstance(tensor.data, bytes))
        count = min(len(wanted), max(1, MAX_BITE // max(1, same)))
        elements, place = await divided.take(place, count, MAX_BITE)
        named = [Tensor(step.for_each, each.datatype, each.shape, each.data) for each in elements]
        kept = await self._keep(named)
        return [[each, *inputs.values()] for each in kept], place

    async def find_hashes(self, elements: Sequence[Sequence[Tensor]]) -> dict[UUID, bytes]:
        """Return the SHA-256 of the files of inputs, as far as Charonia has hashed them itself."""
        files = {each.data.file_id for inputs in elements for each in inputs if isinstance(each.data, FileContent)}
        if not files:
            return {}
        found = await STATEMENTS["find_hashes"].run(self._connection, files=list(files))
        return {record["id"]: record["sha256"] for record in found}

    async def _keep(self, made: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return tensors, in files of the run if they are too large for a row. Those cut out of a row are not."""
        return made if self._files is None else await self._files.keep(self._connection, self._run, made)

    def _divide(self, text: str) -> DividedTensor:
        reference = parse_reference(text)

        async def read_input(part: int) -> Tensor:
            return self._inputs[reference.name]

        async def read_output(part: int) -> Tensor:
            assert reference.step is not None, "it is the output of a step"
            return await self._find_outputs(reference.step).read(part, reference.name)

        if reference.step is None:
            parts = Parts(1, read_input)
        else:
            parts = Parts(self._find_outputs(reference.step).count, read_output)
        return DividedTensor(self._run, parts, self._files)

    def _find_outputs(self, step: str) -> StepOutputs:
        if step not in self._outputs:
            self._outputs[step] = StepOutputs(self._connection, self._run, step)
        return self._outputs[step]

    async def _join(self, step: str, name: str) -> Tensor:
        """Return an output of all elements of a step."""
        outputs, size = self._find_outputs(step), 0
        pieces: list[Tensor] = []
        for element in range(outputs.count):
            piece = await outputs.read(element, name)
            size += piece.data.size if isinstance(piece.data, FileContent) else len(read_bytes(piece))
            if size > MAX_JOINED:
                raise CannotGoOn(f"the outputs '{name}' of step '{step}' have over {MAX_JOINED} bytes together")
            assert self._files is not None, "no job of the step has ended before the run begins"
            pieces.append(await self._files.load(self._run, piece))
        if not pieces:
            return gather_nothing(next(each for each in self._pipeline.outputs[step] if each.name == name))
        try:
            joined = await in_thread_if_large(size, gather, pieces)
        except InvalidElements as error:
            raise CannotGoOn(f"output '{name}' of step '{step}' cannot be joined: {error}") from error
        (kept,) = await self._keep([joined])
        return kept


def read_bytes(tensor: Tensor) -> bytes:
    assert isinstance(tensor.data, bytes), "an output of a step is in its row, or in a file of Charonia"
    return tensor.data


async def in_thread_if_large(size: int, work: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
    """Return what `work` returns. Beyond LARGE bytes it runs in a thread: the event loop has leases to renew."""
    if size > LARGE:
        return await asyncio.to_thread(work, *values, **named)
    return work(*values, **named)
