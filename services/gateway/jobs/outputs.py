"""Reads large outputs, once the gateway has room for them."""

from typing import Any

from litestar import Request

from services.gateway.http.limits.response_limits import find_response_lease
from services.gateway.jobs.store import FoundJob, JobStore


async def load_outputs(request: Request[Any, Any, Any], store: JobStore, found: FoundJob) -> FoundJob:
    """Return the job with its outputs, which the response then holds. Raises Problem (503) without room for them."""
    if found.outputs is not None or found.outputs_size is None:
        return found
    await find_response_lease(request.scope).reserve(found.row.tenant_id, found.outputs_size)
    return found._replace(outputs=await store.read_outputs(found.row.id))
