"""A body becomes a job that can be written: decoded, checked whole, packed. Pure, so that any process may do it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids, tensors
from common.addresses import Policy, check_url
from common.errors import AddressRefused
from common.outbox import ring_job
from common.tensors import Signature, Tensor
from services.gateway.catalogue import choose
from services.gateway.errors import FieldError, Problem, decode_body, invalid
from services.gateway.idempotency_store import Label
from services.gateway.protocol import Wanted, read_request
from services.gateway.schemas import SubmitJob
from services.gateway.store import ModelVersion, NewJob
from services.gateway.tensors import escape, read_inputs
from services.gateway.times import bound_optional

MAX_PARAMETERS = 100
MAX_METADATA = 16 * 1024
FURTHEST = timedelta(days=366)
RESERVED = "triton_"  # parameters that begin so are Triton's own
REMEMBERED = 1000  # URLs


check_receiver = lru_cache(REMEMBERED)(check_url)  # a receiver gets many


class Asked(NamedTuple):
    """Who asks, and what a job is checked against; the label is the client's, for idempotency.

    `key_id` where the caller's key is to be checked with the write.
    """

    tenant_id: UUID
    traceparent: str
    models: Mapping[str, Sequence[ModelVersion]]
    policy: Policy
    label: Label | None = None
    key_id: UUID | None = None


class Url(NamedTuple):
    """What the URL of an infer call says, and its header of the JSON's length; `outputs` are the model's."""

    model: str
    version: str | None
    length: str | None
    outputs: Sequence[Signature]


def read_job(body: bytes | str, asked: Asked) -> NewJob:
    """Raises Problem (400, 404, 422)."""
    return prepare(decode_body(body, SubmitJob), asked)


def read_again(body: bytes | str, asked: Asked) -> NewJob:
    """What was accepted before, as it is shown: nothing is checked, nothing packed. Raises Problem (400, 422)."""
    return name(build(asked.tenant_id, decode_body(body, SubmitJob), [], asked.traceparent), asked.label)


def read_infer(body: bytes, url: Url, asked: Asked) -> tuple[NewJob, Wanted]:
    """Of the Open Inference Protocol. Raises Problem (400, 404, 422)."""
    request, wanted = read_request(body, url.length, url.model, url.version, url.outputs)
    return prepare(request, asked), wanted


def prepare(request: SubmitJob, asked: Asked) -> NewJob:
    """The job, checked; raises Problem (404, 422)."""
    model = choose(asked.models, request.model, request.version)
    found = check(request, model, asked.policy)
    job = build(asked.tenant_id, request, found, asked.traceparent, model.max_batch_size)
    if request.fallback_model is not None:
        check_fallback(request, request.fallback_model, asked.models, job.tensors)
    job = name(job, asked.label)
    return job if asked.key_id is None else msgspec.structs.replace(job, key_id=asked.key_id)


def name(job: NewJob, label: Label | None) -> NewJob:
    if label is None:
        return job
    return msgspec.structs.replace(job, idempotency_key=label.key, fingerprint=label.fingerprint)


def check(request: SubmitJob, model: ModelVersion, policy: Policy) -> list[Tensor]:
    found, errors = read_inputs(request.inputs, model.inputs, model.max_batch_size)
    errors += check_options(request)
    if request.webhook is not None:
        try:
            check_receiver(request.webhook.url, policy)
        except AddressRefused as error:
            errors.append(FieldError("/webhook/url", str(error)))
    if errors:
        raise invalid(*errors)
    return found


def check_fallback(request: SubmitJob, name: str, models: Mapping[str, Sequence[ModelVersion]], packed: bytes) -> None:
    """The fallback must be able to take what was packed for the model."""
    try:
        model = choose(models, name)
    except Problem as problem:
        raise invalid(FieldError("/fallback_model", problem.detail)) from problem
    found, errors = read_inputs(request.inputs, model.inputs, model.max_batch_size)
    if errors or tensors.pack(found) != packed:
        text = f"'{name}' does not take the inputs of '{request.model}'"
        raise invalid(FieldError("/fallback_model", text), *errors)


def check_options(request: SubmitJob) -> list[FieldError]:
    errors = []
    if request.retry.longest < request.retry.initial_delay:
        errors.append(FieldError("/retry/max_delay", "is below initial_delay"))
    if request.run_at is not None and request.run_at > datetime.now(UTC) + FURTHEST:
        errors.append(FieldError("/run_at", f"is further away than {FURTHEST.days} days"))
    for name, value in islice((request.parameters or {}).items(), MAX_PARAMETERS):
        pointer = f"/parameters/{escape(name)}"
        if name.startswith(RESERVED):
            errors.append(FieldError(pointer, f"names that begin with '{RESERVED}' are reserved"))
        if type(value) is int and not -(2**63) <= value < 2**63:
            errors.append(FieldError(pointer, "does not fit 64 bits"))
    if len(request.parameters or {}) > MAX_PARAMETERS:
        errors.append(FieldError("/parameters", f"are over {MAX_PARAMETERS}"))
    if request.metadata is not None and len(msgspec.json.encode(request.metadata)) > MAX_METADATA:
        errors.append(FieldError("/metadata", f"is over {MAX_METADATA} bytes"))
    return errors


def build(tenant_id: UUID, request: SubmitJob, found: list[Tensor], traceparent: str, together: int = 1) -> NewJob:
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
        timeout=request.timeout,
        initial_delay=request.retry.initial_delay,
        max_delay=request.retry.longest,
        fallback_model=request.fallback_model,
        traceparent=traceparent,
        tensors=tensors.pack(found),
        parameters=msgspec.json.encode(request.parameters) if request.parameters else None,
        metadata=None if request.metadata is None else msgspec.json.encode(request.metadata),
        callback_url=request.webhook.url if request.webhook else None,
        callback_events=request.webhook.events if request.webhook else None,
        message=ring_job(job_id, request.priority, request.model, traceparent, together),
    )
