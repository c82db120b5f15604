"""Reads what the steps of a run refer to: inputs of the run, and outputs of other steps."""

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from common import tensors
from common.errors import CharoniaError
from common.jobs.run import Run, read_step
from common.pipelines.definition import StepDefinition
from common.pipelines.elements import (
    Cursor,
    InvalidElements,
    count_elements,
    find_end,
    gather,
    gather_nothing,
    read_data,
    take_window,
)
from common.pipelines.references import PipelineReference, parse_reference
from common.postgres.statements import Executor
from common.runs.pipelines import Pipeline
from common.tensors import Tensor

P = ParamSpec("P")
T = TypeVar("T")

LARGE = 256 * 1024
MAX_JOINED = 64 * 1024 * 1024  # bytes of outputs of the elements of one step, which are in memory to be joined


class CannotGoOn(CharoniaError):
    """A run fails although no job did: outputs that it needs are gone, or too large. One step may have to start."""

    def __init__(self, text: str, step: str | None = None) -> None:
        super().__init__(text if step is None else f"step '{step}' cannot start: {text}")
        self.step = step


@contextmanager
def starting(step: str) -> Iterator[None]:
    """Raise CannotGoOn with this step if it has no inputs, or if they cannot be divided."""
    try:
        yield
    except (InvalidElements, CannotGoOn) as error:
        raise CannotGoOn(str(error), step) from error


class StepInputs:
    """The tensors of one locked run. Each is read once."""

    def __init__(self, executor: Executor, run: Run, pipeline: Pipeline) -> None:
        self._executor = executor
        self._run = run
        self._pipeline = pipeline
        self._steps: dict[str, Sequence[bytes]] = {}  # the outputs of each element
        self._found: dict[PipelineReference, Tensor] = {}
        self._inputs = {tensor.name: tensor for tensor in tensors.unpack(run.tensors)}

    async def find(self, reference: PipelineReference) -> Tensor | None:
        """Return a tensor under its own name. None: an optional input that the run does not have.

        Raises CannotGoOn if an output is gone, or if those of the elements cannot be joined.
        """
        if reference.step is None:
            return self._inputs.get(reference.name)
        if reference not in self._found:
            self._found[reference] = await self._find_output(reference.step, reference.name)
        return self._found[reference]

    async def _find_output(self, step: str, name: str) -> Tensor:
        if step not in self._steps:
            self._steps[step] = await self._read_step(step)
        packed, size = self._steps[step], sum(map(len, self._steps[step]))
        try:
            if not packed:
                return gather_nothing(next(each for each in self._pipeline.outputs[step] if each.name == name))
            found = await in_thread_if_large(size, pick, packed, name)
            if self._pipeline.definition.steps[step].for_each is None:
                return found[0]
            return await in_thread_if_large(size, gather, found)
        except (KeyError, InvalidElements) as error:
            raise CannotGoOn(explain(step, name, error)) from error

    async def _read_step(self, step: str) -> Sequence[bytes]:
        found = await read_step(self._executor, self._run.id, step, MAX_JOINED)
        if found.size > MAX_JOINED:
            raise CannotGoOn(f"the outputs of step '{step}' have over {MAX_JOINED} bytes together")
        packed = [each for each in found.packed if each is not None]
        if len(packed) != self._run.state[step].total:
            raise CannotGoOn(f"outputs of step '{step}' are gone; submit a new job")
        return packed

    async def read(self, step: StepDefinition) -> dict[str, Tensor]:
        """Return the inputs of a step by name, before they are divided. Raises as `find` does."""
        found: dict[str, Tensor] = {}
        for name, text in step.inputs.items():
            tensor = await self.find(parse_reference(text))
            if tensor is not None:
                found[name] = Tensor(name, tensor.datatype, tensor.shape, tensor.data)
        return found


def pick(packed: Sequence[bytes], name: str) -> list[Tensor]:
    """Return one output of each element. Others are not looked at. Raises KeyError if an element lacks it."""
    return [{tensor.name: tensor for tensor in tensors.unpack(each)}[name] for each in packed]


def explain(step: str, output: str, error: KeyError | InvalidElements) -> str:
    """Return why an output of a step cannot be used."""
    if isinstance(error, KeyError):
        return f"step '{step}' made no output '{output}': its model has changed; check the pipeline, and store it again"
    return f"output '{output}' of step '{step}' cannot be joined: {error}"


async def in_thread_if_large(size: int, work: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
    """Return what `work` returns. Beyond LARGE bytes it runs in a thread: the event loop has leases to renew."""
    if size > LARGE:
        return await asyncio.to_thread(work, *values, **named)
    return work(*values, **named)


def count(step: StepDefinition, inputs: Mapping[str, Tensor]) -> int:
    """Return how many elements a step has. Raises InvalidElements."""
    return 1 if step.for_each is None else count_elements(inputs[step.for_each].shape)


def divide(step: StepDefinition, inputs: Mapping[str, Tensor], wanted: range) -> Sequence[list[Tensor]]:
    """Return the inputs of each of the wanted elements. Raises InvalidElements."""
    if step.for_each is None:
        return [[*inputs.values()]]
    divided = inputs[step.for_each]
    skipped = wanted.start * math.prod(divided.shape[1:])
    cursor = Cursor(wanted.start, find_end(read_data(divided), divided.datatype, 0, skipped))
    elements, _ = take_window(divided, cursor, len(wanted))
    return [[element if name == step.for_each else tensor for name, tensor in inputs.items()] for element in elements]
