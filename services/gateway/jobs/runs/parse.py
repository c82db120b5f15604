"""Makes a run of a request whose model is a pipeline. Pure, so that a worker process can do it."""

from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from common import tensors
from common.job_options import Reuse
from common.jobs.new_job import NewJob
from common.pipelines.graph import find_divided_inputs
from common.pipelines.run_state import begin, encode
from common.tensors import FileContent
from services.gateway.http.problems import FieldError, Problem, escape, invalid
from services.gateway.jobs.schemas import RetryRule, SubmitJob
from services.gateway.models.pipeline_store import PipelineKey, StoredPipeline
from services.gateway.models.pipelines import to_model
from services.gateway.models.store import ModelVersion

RUN_TIMEOUT = 86_400.0  # seconds


class NeedsPipeline(Exception):
    """A request names no model. So it must be looked up whether its tenant has a pipeline of that name."""

    def __init__(self, key: PipelineKey) -> None:
        super().__init__(key)
        self.key = key


class RunnablePipeline(NamedTuple):
    """A pipeline as a request is checked with it: like a model, with its steps, and the inputs that they divide."""

    model: ModelVersion
    steps: Collection[str]
    divided: Collection[str]


KnownPipelines = Mapping[PipelineKey, RunnablePipeline | None]  # None: there is none
NO_PIPELINES: KnownPipelines = {}


def to_runnable(stored: StoredPipeline) -> RunnablePipeline:
    steps = stored.pipeline.definition.steps
    return RunnablePipeline(to_model(stored, {}), [*steps], find_divided_inputs(steps))


def find_pipeline(key: PipelineKey, models: Collection[str], known: KnownPipelines) -> RunnablePipeline | None:
    """Return the pipeline that a request names, or None if it names a model, or nothing. A model comes first.

    Raises NeedsPipeline, and Problem (404) for a version that there is not.
    """
    if key.name in models:
        return None
    if key not in known:
        raise NeedsPipeline(key)
    found, latest = known[key], known.get(PipelineKey(key.name))
    if found is None and latest is not None:
        raise lack_version(key, latest.model)
    return found


def lack_version(key: PipelineKey, latest: ModelVersion) -> Problem:
    text = f"pipeline '{key.name}' has no version '{key.version}'; its newest version is '{latest.version}'"
    return Problem(HTTPStatus.NOT_FOUND, "model_not_found", text)


def find_run_errors(request: SubmitJob) -> list[FieldError]:
    """Return the errors of fields that a run does not take, each with what to do instead."""
    refused = {
        "/retry": (request.retry != RetryRule(), "set `retry` of the steps in the pipeline"),
        "/fallback_model": (request.fallback_model is not None, "set `fallback_model` of the steps in the pipeline"),
        "/parameters": (bool(request.parameters), "set `parameters` of the steps in the pipeline"),
        "/expires_in": (request.expires_in is not None, "set `timeout`, in which the run must end"),
        "/reuse": (isinstance(request.reuse, Reuse), "set `reuse` of the steps in the pipeline"),
        "/output/location": (request.output is not None, "fetch the outputs, and store them yourself"),
    }
    return [
        FieldError(pointer, f"a pipeline does not take this; {advice}")
        for pointer, (is_given, advice) in refused.items()
        if is_given
    ]


def to_run(job: NewJob, request: SubmitJob, pipeline: RunnablePipeline) -> NewJob:
    """Return the run of a valid request. Raises Problem (422) for an input that cannot be divided."""
    for tensor in tensors.unpack(job.tensors):
        if tensor.name in pipeline.divided and not isinstance(tensor.data, bytes | FileContent):
            text = "is at a URL or in a bucket; a step runs for each of its elements, so upload it as a file"
            raise invalid(FieldError(f"/inputs/{escape(tensor.name)}", text))
    return msgspec.structs.replace(
        mark_run(job, pipeline.model.version),
        timeout=RUN_TIMEOUT if request.timeout is UNSET else request.timeout,
        run_state=encode(begin(pipeline.steps)),
    )


def mark_run(job: NewJob, version: str) -> NewJob:
    """Return a job as the answer shows a run of this version."""
    return msgspec.structs.replace(job, version=version, max_attempts=1, run_state=encode({}))
