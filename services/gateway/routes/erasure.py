"""Erasing a job's payload."""

from http import HTTPStatus
from typing import Any

from litestar import Request, Router, delete

from common import ids
from common.logs import Log
from services.gateway.callers import identify_caller
from services.gateway.erasure import Eraser
from services.gateway.errors import FINDING, document
from services.gateway.routes.references import parse_id
from services.gateway.scopes import Scope, needs
from services.gateway.store import Key

log = Log("job")


@delete(
    "/jobs/{job_id:str}",
    summary="Erase a job's payload",
    operation_id="erase_job",
    **needs(Scope.ADMIN),
    responses=document(*FINDING, HTTPStatus.CONFLICT),
)
async def erase_job(request: Request[Key, Any, Any], job_id: str, eraser: Eraser) -> None:
    """Inputs, outputs, metadata, error messages and webhooks of an ended job are gone for good, and none that waited is
    sent. The job stays, with its state and its times. Again is no error."""
    if await eraser.erase(request.user.tenant_id, parse_id(ids.Kind.JOB, job_id)):
        log.info("job.erased", job_id=job_id, **identify_caller(request))


router = Router("/", route_handlers=[erase_job], tags=["Jobs"])
