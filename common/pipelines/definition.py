"""The definition of a pipeline, as it is stored.

A later release may add fields, so unknown ones are ignored. Those of a request are refused: see
`services/gateway/pipelines/schemas.py`.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from common.job_options import Name, Parameters, RetryOptions, Reuse, Timeout
from common.job_states import Priority
from common.tensors import Datatype

STEP_NAME = r"^(?!inputs$)[A-Za-z_][A-Za-z0-9_-]{0,63}$(?!\n)"
StepName = Annotated[str, Meta(pattern=STEP_NAME)]
# `$inputs.NAME` or `$STEP.OUTPUT`, as `common.pipelines.references` reads it.
ReferenceText = Annotated[str, Meta(min_length=1, max_length=512, pattern=r"^[^\x00]*$")]
Dimension = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
UpTo64 = Meta(min_length=1, max_length=64)
UpTo32 = Meta(min_length=1, max_length=32)


class InputDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a pipeline."""

    datatype: Datatype
    """The type of each element."""
    shape: Annotated[list[Dimension], Meta(max_length=16)]
    """The size of each dimension. -1 is any size."""
    optional: bool = False
    """Whether a run may leave the input out."""


class StepDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a pipeline: a model, and where its inputs come from."""

    model: Name
    """The model to run."""
    version: Name | None = None
    """The version to run. By default the newest one."""
    inputs: Annotated[Mapping[Name, ReferenceText], Meta(max_length=64)]
    """The inputs of the model by name: `$inputs.NAME` is an input of the pipeline, `$STEP.NAME` an output of a step."""
    for_each: Name | None = None
    """An input. The step runs once for each element of its first axis, and gets the other inputs whole.

    An element keeps that axis, with size 1. The outputs are joined along their first axis, in order.
    """
    parameters: Parameters | None = None
    """Request parameters for the model, as Triton has them: at most 100, and 64 KiB. Not those of Triton itself."""
    priority: Priority | None = None
    """Jobs of a higher priority run first. By default that of the run."""
    timeout: Timeout = 600.0
    """How many seconds one attempt may run."""
    retry: RetryOptions = RetryOptions()
    """How to retry failed attempts."""
    fallback_model: Name | None = None
    """A model to try once when all attempts have failed."""
    reuse: Reuse | None = None
    """Whether the step may take the result of another step of yours with the same inputs, model and parameters.

    By default it does not, whatever the model's own default is. Steps share nothing with other jobs.
    """


class PipelineDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline."""

    inputs: Annotated[Mapping[Name, InputDefinition], UpTo64]
    """The inputs by name."""
    steps: Annotated[Mapping[StepName, StepDefinition], UpTo32]
    """The steps by name. A step starts when all steps that it refers to have succeeded."""
    outputs: Annotated[Mapping[Name, ReferenceText], UpTo64]
    """The outputs by name: `$STEP.NAME` is an output of a step."""
