"""References in a pipeline: `$inputs.image` is an input of the pipeline, `$read.text` an output of the step `read`."""

from typing import NamedTuple

from common.errors import CharoniaError

INPUTS = "inputs"  # so no step may have this name


class InvalidReference(CharoniaError):
    """A reference that cannot be read, or that names nothing in its pipeline."""


class PipelineReference(NamedTuple):
    """The output `name` of a step, or the input `name` of the pipeline if `step` is None."""

    step: str | None
    name: str


def parse_reference(text: str) -> PipelineReference:
    """Return the reference. Names of tensors may contain dots, so only the first dot divides.

    Raises InvalidReference.
    """
    source, _, name = text.removeprefix("$").partition(".")
    if not (text.startswith("$") and source and name):
        raise InvalidReference(
            f"invalid reference '{text}'; expected `${INPUTS}.NAME` for an input of the pipeline, "
            "or `$STEP.NAME` for an output of a step"
        )
    return PipelineReference(None if source == INPUTS else source, name)
