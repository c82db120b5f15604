"""Submits a job and waits for its end, so that the caller sees what Triton itself would respond."""

from contextlib import suppress
from http import HTTPStatus
from typing import Any

from common import ids
from common.errors import Unavailable
from common.job_states import TERMINAL, Status
from common.jobs.job import Job
from common.jobs.new_job import NewJob
from common.telemetry.logs import Log
from common.views.job import job_log_fields
from services.gateway.auth.store import Key
from services.gateway.events.waiters import Waiters
from services.gateway.http.disconnects import while_connected
from services.gateway.http.limits.body_limits import BodyLease
from services.gateway.http.problems import LATER, Problem, conflict
from services.gateway.jobs.actions.cancel import Canceler
from services.gateway.jobs.parse import SubmitContext
from services.gateway.jobs.store import FoundJob, JobStore
from services.gateway.jobs.submit import Submitter, count_submitted
from services.gateway.open_inference.parse import InferCall, parse_infer
from services.gateway.open_inference.requests import ResponseFormat

# Triton's status for a job's error code. All other codes are 500.
STATUS_BY_ERROR = {
    "invalid_input": HTTPStatus.BAD_REQUEST,
    "inference_refused": HTTPStatus.BAD_REQUEST,
    "input_missing": HTTPStatus.BAD_REQUEST,
    "input_timeout": HTTPStatus.SERVICE_UNAVAILABLE,
    "input_location_failed": HTTPStatus.SERVICE_UNAVAILABLE,
    "input_location_refused": HTTPStatus.BAD_REQUEST,
    "input_url_encoded": HTTPStatus.BAD_REQUEST,
    "input_url_failed": HTTPStatus.BAD_REQUEST,
    "input_url_refused": HTTPStatus.BAD_REQUEST,
    "input_url_timeout": HTTPStatus.SERVICE_UNAVAILABLE,
    "input_url_too_large": HTTPStatus.BAD_REQUEST,
    "input_url_wrong_size": HTTPStatus.BAD_REQUEST,
    "too_large": HTTPStatus.BAD_REQUEST,
    "unsupported": HTTPStatus.BAD_REQUEST,
    "model_not_found": HTTPStatus.NOT_FOUND,
    "model_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "timeout": HTTPStatus.SERVICE_UNAVAILABLE,
    "triton_queue_full": HTTPStatus.SERVICE_UNAVAILABLE,
    "triton_queue_timeout": HTTPStatus.SERVICE_UNAVAILABLE,
    "triton_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "worker_lost": HTTPStatus.SERVICE_UNAVAILABLE,
    "worker_stopped": HTTPStatus.SERVICE_UNAVAILABLE,
}

log = Log("job")


class Inference:
    """Runs jobs whose callers wait for them."""

    def __init__(
        self, submitter: Submitter, canceler: Canceler, store: JobStore, waiters: Waiters, seconds: float
    ) -> None:
        """`seconds` is the longest wait of a caller."""
        self.submitter = submitter
        self._canceler = canceler
        self.store = store
        self._waiters = waiters
        self._seconds = seconds

    async def parse(self, body: bytes, call: InferCall, context: SubmitContext) -> tuple[NewJob, ResponseFormat]:
        """Return the valid job and the requested response format. Raises Problem (400, 404, 422)."""

        async def parse(context: SubmitContext) -> tuple[NewJob, ResponseFormat]:
            return await self.submitter.workers.work(len(body), parse_infer, body, call, context)

        return await self.submitter.lookups.parse(parse, context)

    async def submit(self, job: NewJob, lease: BodyLease) -> Job:
        """Commit the job. Raises as Submitter.submit does, and Problem (429, 503) without capacity to wait for it."""
        self._waiters.check_capacity(job.tenant_id)
        row = (await self.submitter.submit_job(job, lease)).row
        count_submitted(row)
        log.info("job.accepted", **job_log_fields(row), priority=row.priority)
        return row

    async def await_result(self, row: Job, key: Key, receive: Any, *, cancels: bool = True) -> FoundJob:
        """Return the job once it has succeeded. When the client disconnects first, cancel the job if `cancels`.

        `receive` is that of ASGI, after the body was read.

        Raises Problem for every other end, and 504 or 503 while the job still runs.
        """
        job_id = ids.encode(ids.Kind.JOB, row.id)
        try:
            await self._wait(row, key, receive, cancels)
            found = await self.store.find_job(row.id, row.tenant_id)
        except Unavailable as error:
            log.warning("job.wait_failed", **job_log_fields(row), error=error)
            raise still_running(job_id, "a dependency of the gateway does not respond") from error
        if found is None:
            raise Problem(HTTPStatus.GONE, "gone", f"{job_id} was deleted; its retention time is over")
        if found.row.status not in TERMINAL and not self._waiters.closing:
            text = f"{job_id} did not end within {self._seconds:g} s; it continues: get it at /v1/jobs/{job_id}"
            raise Problem(HTTPStatus.GATEWAY_TIMEOUT, "infer_timeout", text)
        if found.row.status not in TERMINAL:
            raise still_running(job_id, "this gateway is stopping")
        if found.row.status is not Status.SUCCEEDED:
            raise explain_failure(found.row, job_id)
        return found

    async def _wait(self, row: Job, key: Key, receive: Any, cancels: bool) -> None:
        """Return at the end of the job or of the wait. Raises Problem for a client that left, or too many waiters."""
        try:
            if not await while_connected(receive, self._waiters.wait(row.id, key, self._seconds)):
                log.info("job.client_disconnected", **job_log_fields(row))
                raise Problem(HTTPStatus.REQUEST_TIMEOUT, "client_gone", "the client disconnected")
        except Problem:
            if cancels:
                await self.cancel(row)
            raise

    async def cancel(self, row: Job) -> None:
        """Cancel the job, because its client has left. If other jobs wait for its result, it runs on."""
        with suppress(Problem):  # the job has ended
            try:
                if await self.store.is_awaited(row):
                    return
                await self._canceler.cancel(row.tenant_id, row.id)
            except Unavailable as error:
                log.warning("job.cancel_failed", **job_log_fields(row), error=error)


def still_running(job_id: str, why: str) -> Problem:
    text = f"{why}; {job_id} continues: get it at /v1/jobs/{job_id}"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)


def explain_failure(row: Job, job_id: str) -> Problem:
    """Return why an ended job has no outputs."""
    if row.status is not Status.FAILED:
        return conflict(f"{job_id} is {row.status}")
    status = STATUS_BY_ERROR.get(row.error_code or "", HTTPStatus.INTERNAL_SERVER_ERROR)
    headers = LATER if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    return Problem(status, row.error_code or "internal", row.error_message or f"{job_id} failed", headers=headers)
