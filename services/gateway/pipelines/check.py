"""Checks the definition of a pipeline against the catalogue. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from common.pipelines.definition import PipelineDefinition
from common.pipelines.graph import find_cycle
from common.pipelines.references import InvalidReference, PipelineReference, parse_reference
from common.tensors import Signature
from services.gateway.auth.model_permissions import Allowed
from services.gateway.http.problems import MAX_ERRORS, FieldError, escape
from services.gateway.models.store import ModelVersion
from services.gateway.pipelines.check_step import find_step_errors
from services.gateway.pipelines.sources import Source, Sources, list_sources, parse_valid
from services.gateway.pipelines.step_models import StepModels, choose_models

References = Mapping[str, Sequence[PipelineReference]]  # of each step, those that can be read


class CheckedPipeline(NamedTuple):
    """What a pipeline declares, as a model does, and its faults. With faults, outputs may lack some."""

    inputs: list[Signature]
    outputs: list[Signature]
    step_outputs: dict[str, list[Signature]]  # all of each step, as others get them
    errors: list[FieldError]


def check_pipeline(
    definition: PipelineDefinition, models: Mapping[str, Sequence[ModelVersion]], allowed: Allowed = None
) -> CheckedPipeline:
    """Return what a pipeline declares, and its faults, at most MAX_ERRORS. Each points into the definition.

    `models` is the catalogue, with each model's versions. `allowed` are those that the caller's key may run.
    """
    chosen, model_errors = choose_models(definition.steps, models, allowed)
    sources = list_sources(definition, chosen)
    references = {name: list(parse_valid(step.inputs.values())) for name, step in definition.steps.items()}
    outputs, output_errors = check_outputs(definition, sources)
    errors = chain(
        model_errors,
        find_errors_in_steps(definition, chosen, sources, references),
        find_cycle_errors(definition, references),
        find_unused_inputs(definition, references),
        output_errors,
    )
    inputs = declare_all(sources.inputs)
    made = {step: declare_all(found) for step, found in sources.outputs.items() if found is not None}
    return CheckedPipeline(inputs, outputs, made, list(islice(errors, MAX_ERRORS)))


def declare_all(sources: Mapping[str, Source]) -> list[Signature]:
    return [declare(name, source) for name, source in sources.items()]


def declare(name: str, source: Source) -> Signature:
    return Signature(name, source.datatype, source.shape, source.optional, source.reference)


def find_errors_in_steps(
    definition: PipelineDefinition, chosen: Mapping[str, StepModels], sources: Sources, references: References
) -> Iterator[FieldError]:
    used = {*parse_valid(definition.outputs.values()), *chain.from_iterable(references.values())}
    for name, step in definition.steps.items():
        outputs = {each.name for each in used if each.step == name}
        for error in find_step_errors(name, step, chosen.get(name), sources, outputs):
            yield FieldError(f"/steps/{name}{error.pointer}", error.detail)


def find_cycle_errors(definition: PipelineDefinition, references: References) -> Iterator[FieldError]:
    """Yield one cycle of several steps. The pointer is that of a reference which is part of it."""
    needs = {
        name: [each.step for each in found if each.step is not None and each.step in references and each.step != name]
        for name, found in references.items()
    }
    cycle = find_cycle(needs)
    if cycle:
        inputs = definition.steps[cycle[0]].inputs
        name = next(name for name, text in inputs.items() if text.startswith(f"${cycle[1]}."))
        shown = " → ".join([*cycle, cycle[0]])
        text = f"the steps refer to each other in a cycle, so none of them can start: {shown}; remove one reference"
        yield FieldError(f"/steps/{cycle[0]}/inputs/{escape(name)}", text)


def find_unused_inputs(definition: PipelineDefinition, references: References) -> Iterator[FieldError]:
    used = {each.name for each in chain.from_iterable(references.values()) if each.step is None}
    for name in definition.inputs:
        if name not in used:
            text = f"no step uses this input; remove it, or refer to it as `$inputs.{name}`"
            yield FieldError(f"/inputs/{escape(name)}", text)


def check_outputs(definition: PipelineDefinition, sources: Sources) -> tuple[list[Signature], list[FieldError]]:
    """Return the outputs of the pipeline, and the errors of those that no step makes. It stops at MAX_ERRORS."""
    outputs: list[Signature] = []
    errors: list[FieldError] = []
    for name, text in definition.outputs.items():
        if len(errors) == MAX_ERRORS:
            break
        try:
            source = find_output(text, sources)
        except InvalidReference as error:
            errors.append(FieldError(f"/outputs/{escape(name)}", str(error)))
        else:
            outputs += [] if source is None else [declare(name, source)]
    return outputs, errors


def find_output(text: str, sources: Sources) -> Source | None:
    """Return the output of a step that a reference names, or None if it is unknown. Raises InvalidReference."""
    if parse_reference(text).step is None:
        raise InvalidReference(f"{text} is an input of the pipeline; an output must be that of a step: `$STEP.NAME`")
    return sources.find(text)
