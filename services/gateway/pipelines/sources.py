"""What the references of a pipeline name, with datatypes and shapes. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from common.pipelines.definition import PipelineDefinition, StepDefinition
from common.pipelines.references import InvalidReference, PipelineReference, parse_reference
from common.tensors import Datatype
from services.gateway.http.validation.suggestions import say_unknown
from services.gateway.pipelines.step_models import StepModels

T = TypeVar("T")


class Source(NamedTuple):
    """What an input of a step gets: an input of the pipeline, an output of a step, or an element of one.

    `reference`: it is a file that models read themselves, as `Signature.reference` says.
    """

    text: str  # for errors
    datatype: Datatype
    shape: list[int]  # -1 is any size
    optional: bool = False
    reference: bool = False


class Sources(NamedTuple):
    """The inputs of a pipeline, and the outputs of each step. A step whose model is unknown has None."""

    inputs: dict[str, Source]
    outputs: dict[str, dict[str, Source] | None]

    def find(self, text: str, own_step: str | None = None) -> Source | None:
        """Return what a reference of a step names, or None if that is unknown because of another fault.

        Raises InvalidReference.
        """
        step, name = parse_reference(text)
        if step is None:
            return find_known("input", name, self.inputs)
        if step == own_step:
            raise InvalidReference(f"step '{step}' refers to itself; it can use outputs of other steps only")
        outputs = find_known("step", step, self.outputs)
        return None if outputs is None else find_known("output", name, outputs)


def find_known(what: str, name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        raise InvalidReference(say_unknown(what, name, known))
    return known[name]


def list_sources(definition: PipelineDefinition, chosen: Mapping[str, StepModels]) -> Sources:
    """Return all that steps may refer to."""
    files = set(find_file_inputs(definition, chosen))
    inputs = {
        name: Source(f"$inputs.{name}", each.datatype, each.shape, each.optional, name in files)
        for name, each in definition.inputs.items()
    }
    outputs = {
        name: list_outputs(name, step, chosen[name]) if name in chosen else None
        for name, step in definition.steps.items()
    }
    return Sources(inputs, outputs)


def list_outputs(name: str, step: StepDefinition, models: StepModels) -> dict[str, Source]:
    """Return the outputs of a step. A dimension in which those of its models differ has any size."""
    others = {each.name: each.shape for each in models.fallback.outputs} if models.fallback else {}
    found = {}
    for output in models.model.outputs:
        shape = join_shapes(output.shape, others.get(output.name, output.shape))
        if step.for_each is not None:
            shape = [-1, *shape[1:]]
        found[output.name] = Source(f"${name}.{output.name}", output.datatype, shape)
    return found


def join_shapes(shape: list[int], other: Sequence[int]) -> list[int]:
    """Return a shape that both fit, or `shape` if their ranks differ."""
    if len(shape) != len(other):
        return shape
    return [size if size == wanted else -1 for size, wanted in zip(shape, other, strict=True)]


def find_file_inputs(definition: PipelineDefinition, chosen: Mapping[str, StepModels]) -> Iterator[str]:
    """Yield the inputs of the pipeline that are files, because the model of a step reads them itself."""
    for name, models in chosen.items():
        inputs = definition.steps[name].inputs
        texts = [inputs[each.name] for each in models.model.inputs if each.reference and each.name in inputs]
        yield from (each.name for each in parse_valid(texts) if each.step is None)


def parse_valid(texts: Iterable[str]) -> Iterator[PipelineReference]:
    """Yield the references that can be read."""
    for text in texts:
        with suppress(InvalidReference):
            yield parse_reference(text)
