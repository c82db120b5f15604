"""Reads the definitions of pipelines. A version never changes, so it is read once."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import tensors
from common.pipelines.definition import PipelineDefinition
from common.pipelines.graph import find_divided_inputs, find_needs
from common.postgres import sql
from common.postgres.statements import Executor
from common.tensors import FileContent, Signature

QUERIES = sql.load("common.runs", "pipelines.sql")
MAX_KEPT = 200  # definitions; the largest has some 100 KB


class Pipeline(NamedTuple):
    """A version of a pipeline. `outputs` are those of each step's model, as it declared them."""

    definition: PipelineDefinition
    outputs: Mapping[str, Sequence[Signature]]
    needs: Mapping[str, Sequence[str]]  # the steps that each step refers to
    divided_inputs: Collection[str]  # those that steps with `for_each` divide

    @property
    def divides(self) -> bool:
        """Whether it has `for_each`. The others never read or write the object store, and never have much to join."""
        return any(step.for_each is not None for step in self.definition.steps.values())

    def divides_file(self, inputs: bytes) -> bool:
        """Return whether a run divides one of its inputs, as `common.tensors` packs them, that is in a file."""
        if not self.divided_inputs:
            return False
        found = tensors.unpack(inputs)
        return any(each.name in self.divided_inputs and isinstance(each.data, FileContent) for each in found)


class Pipelines:
    """Definitions by tenant, name and version."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[UUID, str, int], Pipeline] = OrderedDict()

    async def find(self, executor: Executor, tenant: UUID, name: str, version: int) -> Pipeline:
        """Return a version that there is. Raises msgspec.DecodeError for one of a later release."""
        key = tenant, name, version
        if key not in self._kept:
            (record,) = await executor.fetch(QUERIES["find_pipeline"], *key)
            self._kept[key] = read_pipeline(record["definition"], record["outputs"])
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def read_pipeline(definition: bytes, outputs: bytes) -> Pipeline:
    """Return a pipeline as it is stored."""
    decoded = msgspec.json.decode(definition, type=PipelineDefinition)
    found = msgspec.json.decode(outputs, type=dict[str, list[Signature]])
    return Pipeline(decoded, found, find_needs(decoded.steps), find_divided_inputs(decoded.steps))
