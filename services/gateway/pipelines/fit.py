"""Whether a model can be a step: its inputs fit what the step gives it, and its outputs what others expect. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from common.tensors import Signature
from services.gateway.http.problems import FieldError, escape
from services.gateway.jobs.inputs.shapes import show_shape
from services.gateway.jobs.inputs.validation import check_batch, list_names, show
from services.gateway.models.store import ModelVersion
from services.gateway.pipelines.sources import Source


def find_input_errors(model: ModelVersion, given: Mapping[str, Source | None]) -> list[FieldError]:
    """Return the errors of a step's inputs, with pointers relative to the step. A source that is None fits."""
    known = {name: source for name, source in given.items() if source is not None}
    errors = [*find_unfit_inputs(model, known), *find_wrong_names(model, given)]
    if errors:
        return errors
    return check_batch([each for each in known.values() if each.shape[:1] != [-1]], model.max_batch_size)


def find_wrong_names(model: ModelVersion, given: Collection[str]) -> Iterator[FieldError]:
    """Yield inputs that the model does not have, and those that it needs and does not get."""
    names = {signature.name for signature in model.inputs}
    for name in given:
        if name not in names:
            text = f"model '{model.name}' has no input '{name}'; it has {list_names(model.inputs)}"
            yield FieldError(f"/inputs/{escape(name)}", text)
    for signature in model.inputs:
        if not signature.optional and signature.name not in given:
            text = f"input '{signature.name}' ({show(signature)}) of model '{model.name}' is missing"
            yield FieldError("/inputs", text)


def find_unfit_inputs(model: ModelVersion, given: Mapping[str, Source]) -> Iterator[FieldError]:
    for signature in model.inputs:
        source = given.get(signature.name)
        if source is not None and (problem := find_mismatch(source, signature, model.name)):
            yield FieldError(f"/inputs/{escape(signature.name)}", problem)


def find_mismatch(source: Source, signature: Signature, model: str) -> str | None:
    """Return why a source cannot be this input of a model; None if it can."""
    text = source.text
    if source.datatype != signature.datatype:
        return f"{text} is {source.datatype}; model '{model}' expects {signature.datatype}"
    if not may_fit(source.shape, signature.shape):
        return f"{text} has shape {source.shape}; model '{model}' expects {show_shape(signature)}"
    if source.optional and not signature.optional:
        return f"{text} is optional; model '{model}' always needs it, so declare it without `optional`"
    if signature.reference and not source.reference:
        return f"model '{model}' reads a file itself here; only an input of the pipeline can be a file, not {text}"
    if source.reference and not signature.reference:
        return f"{text} is a file that the model of another step reads itself; give model '{model}' an input of its own"
    return None


def find_fallback_errors(
    model: ModelVersion, fallback: ModelVersion, given: Mapping[str, Source | None], used: Collection[str]
) -> Iterator[FieldError]:
    """Yield why a fallback model cannot replace a step's model. `used` are the outputs that others refer to."""
    problems = [error.detail for error in find_input_errors(fallback, given)]
    problems += find_unlike_outputs(model, fallback, used)
    for problem in problems:
        yield FieldError("/fallback_model", f"'{fallback.name}' cannot replace '{model.name}': {problem}")


def find_unlike_outputs(model: ModelVersion, fallback: ModelVersion, used: Collection[str]) -> Iterator[str]:
    """Yield the used outputs that another model lacks, or has with another datatype or shape."""
    own = {output.name: output for output in fallback.outputs}
    for output in model.outputs:
        if output.name not in used:
            continue
        if output.name not in own:
            yield f"it has no output '{output.name}'; it has {list_names(fallback.outputs)}"
        elif own[output.name].datatype != output.datatype or not may_fit(own[output.name].shape, output.shape):
            yield f"its output '{output.name}' is {show(own[output.name])}; {show(output)} is expected"


def may_fit(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Return whether tensors of a shape can have the wanted one, where -1 in either is any size."""
    return len(shape) == len(wanted) and all(
        -1 in (size, each) or size == each for size, each in zip(shape, wanted, strict=True)
    )
