"""Request and response bodies of the pipeline calls. Unknown request fields are refused, so a typo never passes."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from common.job_options import Name
from common.pipelines.definition import (
    InputDefinition,
    PipelineDefinition,
    StepDefinition,
    StepName,
    UpTo32,
    UpTo64,
)
from common.views.job import Object, Time
from services.gateway.jobs.schemas import RetryRule
from services.gateway.models.schemas import TensorView


class PipelineInput(InputDefinition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input of a pipeline."""


class PipelineStep(StepDefinition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step of a pipeline: a model, and where its inputs come from."""

    retry: RetryRule = RetryRule()
    """How to retry failed attempts."""


class PutPipeline(PipelineDefinition, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pipeline to store."""

    inputs: Annotated[Mapping[Name, PipelineInput], UpTo64]
    """The inputs by name."""
    steps: Annotated[Mapping[StepName, PipelineStep], UpTo32]
    """The steps by name. A step starts when all steps that it refers to have succeeded."""


class CheckedView(msgspec.Struct, frozen=True):
    """What a pipeline takes and makes."""

    input_tensors: list[TensorView]
    """The inputs of the pipeline."""
    output_tensors: list[TensorView]
    """The outputs of the pipeline. Those of a step with `for_each` have any size in the first dimension."""


class PipelineView(msgspec.Struct, frozen=True):
    """A version of a pipeline."""

    name: str
    """The name, which a job gives as its `model`."""
    version: str
    """The number of the version, from 1."""
    created_at: Time
    """When the version was stored."""
    definition: Object
    """The definition, as a PutPipeline, with the defaults of the fields that it left out."""


class PipelineDetails(PipelineView, frozen=True):
    """A version of a pipeline, with what other versions there are."""

    versions: list[str]
    """All versions, newest first. A job may ask for one of them."""


class PipelinePage(msgspec.Struct, frozen=True):
    """A page of pipelines."""

    items: list[PipelineView]
    """The newest version of each pipeline, by name."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""
