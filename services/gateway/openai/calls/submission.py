"""Submits the job of a request, or finds the job of a repeated one."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from litestar import Request
from opentelemetry.trace import get_current_span

from common import ids
from common.jobs.job import Job
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.gateway.auth.store import Key
from services.gateway.http.bodies import forget_body
from services.gateway.http.limits.body_limits import find_lease
from services.gateway.http.worker_processes import Workers
from services.gateway.jobs.idempotency.keys import check_same_request, parse_key
from services.gateway.jobs.idempotency.store import RequestKey
from services.gateway.jobs.parse import SubmitContext
from services.gateway.jobs.submit import SubmittedJob, Submitter, count_submitted, replay
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.translation import NeedsWorker, Reshow, Shown, Translate, Translated, rebuild
from services.gateway.openai.problems import PREFIX, erased

JOB_HEADER = "X-Charonia-Job"

Caller = Request[Key, Any, Any]

log = Log("job")


class Call(NamedTuple):
    """A request with its job. `is_kept`: it has an idempotency key, so its client may come back for the answer."""

    endpoint: Endpoint
    row: Job
    shown: Shown
    is_kept: bool
    replayed: bool

    @property
    def headers(self) -> dict[str, str]:
        headers = {JOB_HEADER: ids.encode(ids.Kind.JOB, self.row.id)}
        return headers | ({"Idempotency-Replayed": "true"} if self.replayed else {})


def make_request_key(endpoint: Endpoint, header: str | None, body: bytes) -> RequestKey | None:
    """Return the key and fingerprint of a request; the same body at another endpoint is another request.

    Raises Problem (422) for an invalid key.
    """
    key = parse_key(header)
    path = f"{PREFIX}{endpoint.removeprefix('/v1')}\n".encode()
    return None if key is None else RequestKey(key, hashlib.sha256(path + body).digest())


class Submission:
    """Submits the jobs of requests."""

    def __init__(self, submitter: Submitter, workers: Workers, template_workers: Workers) -> None:
        """`template_workers` render templates that operators wrote."""
        self._submitter = submitter
        self.workers = workers
        self._template_workers = template_workers

    async def submit(
        self,
        request: Caller,
        endpoint: Endpoint,
        key: str | None,
        translate: Translate,
        reshow: Reshow,
        *,
        check: Callable[[Shown], None] | None = None,
        more: int = 0,
    ) -> Call:
        """Commit the job of a request, or find that of its idempotency key. The body is freed on return.

        `check` is called before anything is written. `more` are bytes that `translate` works on beside the body.
        Raises what `check` raises, Problem (400, 403, 404, 408, 409, 410, 413, 415, 422, 429, 503), and Unavailable.
        """
        body = await request.body()
        request_key = make_request_key(endpoint, key, body)
        traceparent = tracing.to_traceparent(get_current_span())
        context = await self._submitter.make_context(request.user, traceparent, request_key)
        first = None
        if request_key is not None:
            first = await self._submitter.idempotency_keys.find(context.tenant_id, request_key.key)
        if request_key is not None and first is not None:
            check_same_request(first, request_key.fingerprint, is_batch=False)
            shown = await self.workers.work(len(body), reshow, body)
            job = await self.workers.work(len(body), rebuild, body, context)
            if first.erased:
                raise erased(ids.encode(ids.Kind.JOB, first.id))
            submitted = replay(first, job)
        else:
            job, shown = await self.translate(body, context, translate, more)
            if check is not None:
                check(shown)
            submitted = await self._submitter.submit_job(job, find_lease(request.scope))
        forget_body(request)
        note(submitted)
        return Call(endpoint, submitted.row, shown, request_key is not None, submitted.replayed)

    async def translate(self, body: bytes, context: SubmitContext, translate: Translate, more: int = 0) -> Translated:
        """Return the valid job of a body. Raises Problem (400, 403, 404, 409, 422, 500), and Unavailable."""
        try:
            return await self.workers.work(len(body) + more, translate, body, context, False)
        except NeedsWorker as needed:
            only = {needed.model: context.models[needed.model]}
            return await self._template_workers.run(translate, body, context._replace(models=only), True)


def note(submitted: SubmittedJob) -> None:
    row = submitted.row
    if submitted.replayed:
        tracing.add_link(row.traceparent)
        log.info("job.replayed", **job_log_fields(row))
    else:
        count_submitted(row)
        log.info("job.accepted", **job_log_fields(row), priority=row.priority)
