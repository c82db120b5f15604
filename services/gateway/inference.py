"""A job whose caller waits for its end, as if Triton itself were asked."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

from common import ids
from common.errors import Unavailable
from common.job_view import JobRow, identify
from common.jobs import TERMINAL, Status
from common.logs import Log
from services.gateway import metrics
from services.gateway.control import Control
from services.gateway.errors import LATER, Problem, conflict
from services.gateway.store import FoundJob, Key, NewJob, Store
from services.gateway.submit import Submitter
from services.gateway.watch import Watch

# How Triton answers a caller what became of a job; all else is 500.
STATUSES = {
    "invalid_input": HTTPStatus.BAD_REQUEST,
    "inference_refused": HTTPStatus.BAD_REQUEST,
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
    def __init__(self, submitter: Submitter, control: Control, store: Store, watch: Watch, seconds: float) -> None:
        """`seconds` are the longest that a caller waits."""
        self.submitter = submitter
        self.control = control
        self.store = store
        self.watch = watch
        self.seconds = seconds

    async def begin(self, job: NewJob) -> JobRow:
        """The job, committed; raises as Submitter.submit does, and where nobody else of the tenant's can wait here."""
        self.watch.check_room(job.tenant_id)
        row = (await self.submitter.submit(job)).row
        metrics.jobs_submitted.labels(row.model, row.priority).inc()
        log.info("job.accepted", **identify(row), priority=row.priority)
        return row

    async def finish(self, row: JobRow, key: Key, gone: Callable[[], Awaitable[None]]) -> FoundJob:
        """The job that has succeeded. `gone` returns once the caller has left: then the job is canceled.

        Raises Problem for every other end, and 504 or 503 for none yet: the job goes on.
        """
        job_id = ids.show(ids.Kind.JOB, row.id)
        try:
            await self.wait(row, key, gone)
            found = await self.store.find_job(row.id, row.tenant_id)
        except Unavailable as error:
            log.warning("job.unwatched", **identify(row), error=error)
            raise unfinished(job_id, "a service this one depends on does not answer") from error
        if found is None:
            raise Problem(HTTPStatus.GONE, "gone", f"{job_id} is no longer kept")
        if found.row.status not in TERMINAL and not self.watch.closing:
            text = f"{job_id} has not ended within {self.seconds:g} s; it goes on: ask for it at /v1/jobs/{job_id}"
            raise Problem(HTTPStatus.GATEWAY_TIMEOUT, "infer_timeout", text)
        if found.row.status not in TERMINAL:
            raise unfinished(job_id, "this gateway is being stopped")
        if found.row.status is not Status.SUCCEEDED:
            raise explain(found.row, job_id)
        return found

    async def wait(self, row: JobRow, key: Key, gone: Callable[[], Awaitable[None]]) -> None:
        """Returns at the job's end or the wait's; raises Problem where the caller has left, or too many wait here."""
        waiting = asyncio.ensure_future(self.watch.wait(row.id, key, self.seconds))
        leaving = asyncio.ensure_future(gone())
        try:
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                log.info("job.left", **identify(row))
                raise Problem(HTTPStatus.REQUEST_TIMEOUT, "client_gone", "the client has left")
            waiting.result()
        except Problem:
            await self.abandon(row)
            raise
        finally:
            waiting.cancel()
            leaving.cancel()

    async def abandon(self, row: JobRow) -> None:
        """Nobody waits for its answer."""
        with suppress(Problem):  # it has ended
            try:
                await self.control.cancel(row.tenant_id, row.id)
            except Unavailable as error:
                log.warning("job.not_canceled", **identify(row), error=error)


def unfinished(job_id: str, why: str) -> Problem:
    text = f"{why}; {job_id} goes on: ask for it at /v1/jobs/{job_id}"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)


def explain(row: JobRow, job_id: str) -> Problem:
    """Why a job that has ended has no outputs."""
    if row.status is not Status.FAILED:
        return conflict(f"{job_id} is {row.status}")
    status = STATUSES.get(row.error_code or "", HTTPStatus.INTERNAL_SERVER_ERROR)
    headers = LATER if status is HTTPStatus.SERVICE_UNAVAILABLE else {}
    return Problem(status, row.error_code or "internal", row.error_message or f"{job_id} failed", headers=headers)
