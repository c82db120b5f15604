"""Decodes, validates and packs the body of a submit into a job. Pure, so that a worker process can do it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids, tensors
from common.errors import AddressRefused
from common.job_states import Priority
from common.jobs.new_job import JobFile, NewJob
from common.locations.location import InvalidLocation, Location
from common.locations.outputs import parse_output_location
from common.rabbitmq.messages import QueuedJob
from common.rabbitmq.wake_ups import job_wake_up
from common.security.ssrf import AddressPolicy, check_url
from common.settings import INLINE_SIZE
from common.tensors import MAX_INPUT_BYTES, FileContent, ObjectContent, Tensor
from services.gateway.auth.model_permissions import Allowed, check_model
from services.gateway.events.event_types import expand, find_event_errors
from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import FieldError, Problem, invalid
from services.gateway.http.validation.timestamps import bound_optional
from services.gateway.jobs.idempotency.store import RequestKey
from services.gateway.jobs.inputs.large_inputs import move_large_inputs
from services.gateway.jobs.inputs.references import KnownFiles, find_sources
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.inputs.validation import name_inputs, read_inputs
from services.gateway.jobs.options import find_parameter_errors, find_retry_errors
from services.gateway.jobs.reuse.keys import add_reuse_key
from services.gateway.jobs.runs.parse import NO_PIPELINES, KnownPipelines, find_pipeline, find_run_errors, to_run
from services.gateway.jobs.schemas import SubmitJob
from services.gateway.models.catalogue import choose
from services.gateway.models.pipeline_store import PipelineKey
from services.gateway.models.store import ModelVersion

MAX_METADATA = 16 * 1024
MAX_SCHEDULE_AHEAD = timedelta(days=366)
CACHED_URLS = 1000
NOT_WRITABLE = (
    "your tenant may not write there; an operator can allow it with "
    "`python -m services.gateway.commands.locations allow --write`"
)


check_webhook_url = lru_cache(CACHED_URLS)(check_url)  # many jobs share a receiver


class SubmitContext(NamedTuple):
    """The caller of a submit, and what its job is validated with. `files`: None until it is known which are needed.

    `max_tensor` are the most bytes of one input from a file or URL.
    """

    tenant_id: UUID
    traceparent: str
    models: Mapping[str, Sequence[ModelVersion]]  # that the caller's key may run
    policy: AddressPolicy
    request_key: RequestKey | None = None
    allowed: Allowed = None
    files: KnownFiles | None = None
    max_inline: int = INLINE_SIZE  # bytes of the inputs that stay in the job's row
    max_tensor: int = 0  # bytes
    input_policy: AddressPolicy = AddressPolicy()  # of URLs of inputs; `policy` is that of webhooks
    pipelines: KnownPipelines = NO_PIPELINES  # those that were looked up
    priority: Priority = Priority.NORMAL  # of a request translated from another protocol, if it names none


class NeedsFiles(Exception):
    """A request refers to files, objects or folders of buckets. They must be looked up before it is validated."""

    def __init__(self, files: dict[UUID | Location, bool]) -> None:
        """`files`: each with whether it may be an .npy file. A folder is where outputs go."""
        super().__init__(files)
        self.files = files


def parse_job(body: bytes | str, context: SubmitContext) -> NewJob:
    """Return the valid job of a body. Raises Problem (400, 403, 404, 422), NeedsPipeline and NeedsFiles."""
    return build_valid_job(decode_body(body, SubmitJob), context)


def build_valid_job(request: SubmitJob, context: SubmitContext) -> NewJob:
    """Validate a request, and return its job, or a run if its model is a pipeline.

    Raises Problem (403, 404, 422), NeedsPipeline and NeedsFiles.
    """
    check_permissions(request, context.allowed)
    pipeline = find_pipeline(PipelineKey(request.model, request.version), context.models, context.pipelines)
    model = choose(context.models, request.model, request.version) if pipeline is None else pipeline.model
    if context.files is None and (needed := find_needed(request, model, is_run=pipeline is not None)):
        raise NeedsFiles(needed)
    files = context.files or KnownFiles({}, context.max_tensor, context.input_policy)
    found = validate(request, model, context.policy, files, is_run=pipeline is not None)
    job = build_job(context.tenant_id, request, found, context.traceparent, model.max_batch_size)
    if context.files is not None:
        job = add_files(job, request, found)
    if pipeline is None:
        job = add_reuse_key(job, request, model, found, files.found)
    if request.fallback_model is not None:
        validate_fallback(request, request.fallback_model, context.models, job.tensors, files)
    job = move_large_inputs(job, found, context.max_inline)
    return add_request_key(job if pipeline is None else to_run(job, request, pipeline), context.request_key)


def find_needed(request: SubmitJob, model: ModelVersion, *, is_run: bool) -> dict[UUID | Location, bool]:
    """Return what must be looked up, each with whether it may be an .npy file."""
    needed = find_sources(request.inputs, model.inputs)
    if request.output is not None and not is_run:
        with suppress(InvalidLocation):
            needed[parse_output_location(request.output.location)] = False
    return needed


def find_output_errors(request: SubmitJob, files: KnownFiles) -> list[FieldError]:
    """Return why the outputs cannot go where the request wants them."""
    if request.output is None:
        return []
    try:
        location = parse_output_location(request.output.location)
    except InvalidLocation as error:
        return [FieldError("/output/location", f"cannot be used: {error}")]
    if location in files.writable:
        return []
    return [FieldError("/output/location", f"{location} cannot be used: {NOT_WRITABLE}")]


def check_permissions(request: SubmitJob, allowed: Allowed) -> None:
    """Raise Problem (403) if the caller's key may not run the model, or the fallback model."""
    check_model(allowed, request.model)
    if request.fallback_model is not None:
        check_model(allowed, request.fallback_model)


def add_request_key(job: NewJob, key: RequestKey | None) -> NewJob:
    if key is None:
        return job
    return msgspec.structs.replace(job, idempotency_key=key.key, fingerprint=key.fingerprint)


def validate(
    request: SubmitJob, model: ModelVersion, policy: AddressPolicy, files: KnownFiles, *, is_run: bool = False
) -> list[Tensor]:
    """Return the inputs as tensors. Raises Problem (422) with every error."""
    found, errors = read_inputs(request.inputs, model.inputs, model.max_batch_size, files)
    inline = sum(len(tensor.data) for tensor in found if isinstance(tensor.data, bytes))
    if (size := inline + measure_files(found)) > MAX_INPUT_BYTES:
        text = f"the inputs have {size} bytes; all of a job may have {MAX_INPUT_BYTES}; send less at a time"
        errors.append(FieldError("/inputs", text))
    errors += find_option_errors(request)
    errors += find_run_errors(request) if is_run else find_output_errors(request, files)
    if request.webhook is not None:
        errors += find_event_errors(request.webhook.events)
        try:
            check_webhook_url(request.webhook.url, policy)
        except AddressRefused as error:
            errors.append(FieldError("/webhook/url", str(error)))
    if errors:
        raise invalid(*errors)
    return found


def measure_files(inputs: Sequence[Tensor]) -> int:
    """Return the bytes of tensors that a dispatcher reads from files."""
    return sum(tensor.data.bytes_read for tensor in inputs if isinstance(tensor.data, FileContent | ObjectContent))


def validate_fallback(
    request: SubmitJob,
    name: str,
    models: Mapping[str, Sequence[ModelVersion]],
    packed: bytes,
    files: KnownFiles,
) -> None:
    """Raises Problem (422) if the fallback model does not accept the packed inputs."""
    try:
        model = choose(models, name)
    except Problem as problem:
        raise invalid(FieldError("/fallback_model", problem.detail)) from problem
    found, errors = read_inputs(request.inputs, model.inputs, model.max_batch_size, files)
    if errors or tensors.pack(found) != packed:
        text = f"'{name}' does not accept the inputs of '{request.model}'"
        raise invalid(FieldError("/fallback_model", text), *errors)


def find_option_errors(request: SubmitJob) -> list[FieldError]:
    """Return the errors of all fields but the inputs and the webhook."""
    errors = find_retry_errors(request.retry)
    if request.run_at is not None and request.run_at > datetime.now(UTC) + MAX_SCHEDULE_AHEAD:
        errors.append(FieldError("/run_at", f"must be within {MAX_SCHEDULE_AHEAD.days} days from now"))
    errors += find_parameter_errors(request.parameters)
    if request.metadata is not None and len(msgspec.json.encode(request.metadata)) > MAX_METADATA:
        errors.append(FieldError("/metadata", f"must be at most {MAX_METADATA} bytes of JSON"))
    return errors


def build_job(
    tenant_id: UUID, request: SubmitJob, inputs: list[Tensor], traceparent: str, max_per_message: int = 1
) -> NewJob:
    """Return the job of a request. `max_per_message` is the batch size of the model."""
    job_id = ids.new()
    return NewJob(
        id=job_id,
        tenant_id=tenant_id,
        model=request.model,
        version=request.version,
        priority=request.priority,
        max_attempts=request.retry.max_attempts,
        run_at=bound_optional(request.run_at),
        expires_in=request.expires_in,
        timeout=request.attempt_timeout,
        initial_delay=request.retry.initial_delay,
        max_delay=request.retry.effective_max_delay,
        fallback_model=request.fallback_model,
        traceparent=traceparent,
        tensors=tensors.pack(inputs),
        parameters=msgspec.json.encode(request.parameters) if request.parameters else None,
        metadata=None if request.metadata is None else msgspec.json.encode(request.metadata),
        callback_url=request.webhook.url if request.webhook else None,
        callback_events=expand(request.webhook.events) if request.webhook else None,
        retain=request.retain,
        output_location=request.output.location if request.output else None,
        wake_up=job_wake_up(
            QueuedJob(tenant_id, job_id), request.priority, request.model, traceparent, max_per_message
        ),
    )


def add_files(job: NewJob, request: SubmitJob, inputs: Sequence[Tensor]) -> NewJob:
    """Return the job with the files of its inputs, each with the field that names it."""
    files = {tensor.name: tensor.data.file_id for tensor in inputs if isinstance(tensor.data, FileContent)}
    used = [
        JobFile(files[name], pointer + ("/data/file" if isinstance(value, InputTensor) else "/file"))
        for name, pointer, value in name_inputs(request.inputs)
        if name in files
    ]
    return msgspec.structs.replace(job, files=used, file_bytes=measure_files(inputs))
