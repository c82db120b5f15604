"""Checks one step of a pipeline: its inputs, its options, and how its models fit. Pure."""

from collections.abc import Collection, Iterator, Mapping

from common.pipelines.definition import StepDefinition
from common.pipelines.references import InvalidReference
from common.reuse.choice import SETTING, read_default
from services.gateway.http.problems import MAX_ERRORS, FieldError, escape
from services.gateway.http.validation.suggestions import say_unknown
from services.gateway.jobs.options import find_parameter_errors, find_retry_errors
from services.gateway.pipelines.fit import find_fallback_errors, find_input_errors
from services.gateway.pipelines.sources import Source, Sources
from services.gateway.pipelines.step_models import StepModels


def find_step_errors(
    name: str, step: StepDefinition, models: StepModels | None, sources: Sources, used: Collection[str]
) -> list[FieldError]:
    """Return the errors of a step, with pointers relative to it. `used` are the outputs that others refer to.

    `models` is None if the step's model cannot be used.
    """
    given, errors = find_given(name, step, sources)
    errors += find_retry_errors(step.retry) + find_parameter_errors(step.parameters)
    if step.reuse is not None and models is not None and read_default(models.model.settings) == 0:
        errors.append(FieldError("/reuse", f"'{step.model}' refuses it ({SETTING} = 0); leave it out"))
    if step.for_each is not None:
        problem = find_for_each_problem(step.for_each, given)
        if problem is not None:
            errors.append(FieldError("/for_each", problem))
        if step.for_each in given:
            given[step.for_each] = None if problem else make_element(given[step.for_each])
    if models is not None:
        errors += find_input_errors(models.model, given)
        errors += find_unjoinable(step, models, used)
        if models.fallback is not None and not errors:
            errors += find_fallback_errors(models.model, models.fallback, given, used)
    return errors


def find_given(name: str, step: StepDefinition, sources: Sources) -> tuple[dict[str, Source | None], list[FieldError]]:
    """Return what each input of a step gets, or None where a fault hides that, and the errors of its references.

    It stops at MAX_ERRORS.
    """
    given: dict[str, Source | None] = {}
    errors: list[FieldError] = []
    for each, text in step.inputs.items():
        if len(errors) == MAX_ERRORS:
            break
        try:
            given[each] = sources.find(text, name)
        except InvalidReference as error:
            given[each] = None
            errors.append(FieldError(f"/inputs/{escape(each)}", str(error)))
    return given, errors


def find_for_each_problem(name: str, given: Mapping[str, Source | None]) -> str | None:
    """Return why a step cannot run for each element of an input; None if it can."""
    if name not in given:
        return say_unknown("input", name, given)
    source = given[name]
    if source is None:
        return None
    if not source.shape:
        return f"{source.text} has shape [], and so no elements; for_each needs at least one dimension"
    if source.optional:
        return f"{source.text} is optional; for_each always needs its input, so declare it without `optional`"
    if source.reference:
        return f"{source.text} is a file that the model reads itself, and so has no elements"
    return None


def make_element(source: Source | None) -> Source | None:
    """Return an element of a source: its first axis has size 1."""
    return source and source._replace(text=f"an element of {source.text}", shape=[1, *source.shape[1:]])


def find_unjoinable(step: StepDefinition, models: StepModels, used: Collection[str]) -> Iterator[FieldError]:
    """Yield the used outputs of a for_each step that have no axis to join them along."""
    for output in models.model.outputs:
        if step.for_each is not None and output.name in used and not output.shape:
            text = f"output '{output.name}' has shape [], so those of the elements cannot be joined"
            yield FieldError("/for_each", text)
