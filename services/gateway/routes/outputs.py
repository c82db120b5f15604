"""A job's outputs for whoever has the signed URL, or a key."""

import time
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Router, get

from common import ids
from common.grants import Grants
from services.gateway.auth import let_in
from services.gateway.errors import FINDING, Problem, document, not_found
from services.gateway.routes.references import parse_id
from services.gateway.schemas import OutputsView
from services.gateway.scopes import OPTION, Scope
from services.gateway.store import Store


@get(
    "/v1/jobs/{job_id:str}/outputs",
    summary="The outputs of a job that succeeded",
    operation_id="get_outputs",
    opt={OPTION: Scope.READ},
    security=[{}, {"key": [Scope.READ.value]}],
    responses=document(*FINDING),
)
async def get_outputs(
    request: Request[Any, Any, Any],
    job_id: str,
    store: Store,
    grants: Grants,
    expires: int | None = None,
    signature: str | None = None,
) -> OutputsView:
    """Needs no key with the `expires` and `signature` of the `outputs_url` in a webhook."""
    parsed = parse_id(ids.Kind.JOB, job_id)
    if expires is not None and signature is not None:
        if not grants.is_genuine(parsed, expires, signature):
            raise forbid("the URL's signature is not ours: use it exactly as it came")
        if expires < time.time():
            raise forbid("the URL has expired: ask for the job with your API key")
        outputs = await store.find_outputs(parsed)
    else:
        key = await let_in(request)
        found = await store.find_job(parsed, key.tenant_id)
        outputs = found.outputs if found else None
    if outputs is None:
        raise not_found("job with outputs")
    return OutputsView(job_id, msgspec.Raw(outputs))


def forbid(detail: str) -> Problem:
    return Problem(HTTPStatus.FORBIDDEN, "forbidden", detail)


router = Router("/", route_handlers=[get_outputs], tags=["Jobs"])
