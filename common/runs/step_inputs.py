"""Reads what the steps of a run refer to: inputs of the run, and outputs of other steps."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from common import tensors
from common.errors import CharoniaError
from common.jobs.run import Run, read_step
from common.pipelines.definition import StepDefinition
from common.pipelines.elements import (
    Cursor,
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
from common.tensors import Signature, Tensor

P = ParamSpec("P")
T = TypeVar("T")

LARGE = 256 * 1024
MAX_JOINED = 64 * 1024 * 1024  # bytes of outputs of the elements of one step, which are in memory to be joined


class CannotGoOn(CharoniaError):
    """A run fails although no step did: outputs that it needs are gone, or too large."""


class StepInputs:
    """The tensors of one locked run. Each is read once."""

    def __init__(self, executor: Executor, run: Run, pipeline: Pipeline) -> None:
        self._executor = executor
        self._run = run
        self._pipeline = pipeline
        self._steps: dict[str, Mapping[str, Tensor]] = {}
        self._inputs = {tensor.name: tensor for tensor in tensors.unpack(run.tensors)}

    async def find(self, reference: PipelineReference) -> Tensor | None:
        """Return a tensor under its own name. None: an optional input that the run does not have.

        Raises InvalidElements, or CannotGoOn, if the outputs of elements cannot be joined.
        """
        if reference.step is None:
            return self._inputs.get(reference.name)
        if reference.step not in self._steps:
            self._steps[reference.step] = await self._read_step(reference.step)
        return self._steps[reference.step][reference.name]

    async def _read_step(self, step: str) -> Mapping[str, Tensor]:
        found = await read_step(self._executor, self._run.id, step, MAX_JOINED)
        if found.size > MAX_JOINED:
            raise CannotGoOn(f"the outputs of step '{step}' have over {MAX_JOINED} bytes together")
        packed = [each for each in found.packed if each is not None]
        if len(packed) != self._run.state[step].total:
            raise CannotGoOn(f"outputs of step '{step}' are gone; submit a new job")
        if self._pipeline.definition.steps[step].for_each is None:
            return unpack(packed[0])
        return await in_thread_if_large(found.size, join, packed, self._pipeline.outputs[step])

    async def read(self, step: StepDefinition) -> dict[str, Tensor]:
        """Return the inputs of a step by name, before they are divided. Raises as `find` does."""
        found: dict[str, Tensor] = {}
        for name, text in step.inputs.items():
            tensor = await self.find(parse_reference(text))
            if tensor is not None:
                found[name] = Tensor(name, tensor.datatype, tensor.shape, tensor.data)
        return found


def unpack(packed: bytes) -> dict[str, Tensor]:
    """Return the outputs of an element by name."""
    return {tensor.name: tensor for tensor in tensors.unpack(packed)}


def join(found: Sequence[bytes], declared: Sequence[Signature]) -> dict[str, Tensor]:
    """Return the outputs of all elements of a step, joined. Raises InvalidElements."""
    elements = [unpack(each) for each in found]
    return {
        output.name: gather([element[output.name] for element in elements]) if elements else gather_nothing(output)
        for output in declared
    }


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
