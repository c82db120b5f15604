"""Reads a repeated request, of which only its fingerprint is checked. Pure, so that a worker process can do it."""

from typing import Any

import msgspec

from common.job_states import Priority
from common.jobs.new_job import NewJob
from services.gateway.http.bodies import decode_body
from services.gateway.jobs.parse import SubmitContext, add_request_key, build_job, check_permissions
from services.gateway.jobs.schemas import Callback, RetryRule, SubmitJob


class RepeatedRetry(msgspec.Struct, frozen=True):
    max_attempts: int = RetryRule().max_attempts


class RepeatedWebhook(msgspec.Struct, frozen=True):
    url: str = ""


class RepeatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer shows of a job, and what the caller's key must allow. Other fields are ignored.

    A gateway of a later release may have accepted the body. A refusal would make the client submit it again.
    """

    model: str
    version: str | None = None
    priority: Priority = Priority.NORMAL
    webhook: RepeatedWebhook | None = None
    metadata: dict[str, Any] | None = None
    retry: RepeatedRetry = RepeatedRetry()
    fallback_model: str | None = None


def parse_replay(body: bytes | str, context: SubmitContext) -> NewJob:
    """Return the job of a repeated request, as far as its answer shows it. Raises Problem (400, 403, 422)."""
    repeated: RepeatedJob = decode_body(body, RepeatedJob)
    request = SubmitJob(
        model=repeated.model,
        version=repeated.version,
        inputs={},
        priority=repeated.priority,
        webhook=Callback(repeated.webhook.url) if repeated.webhook else None,
        metadata=repeated.metadata,
        retry=RetryRule(repeated.retry.max_attempts),
        fallback_model=repeated.fallback_model,
    )
    check_permissions(request, context.allowed)
    job = build_job(context.tenant_id, request, [], context.traceparent)
    return add_request_key(job, context.request_key)
