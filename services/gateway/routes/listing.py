"""The list of jobs."""

from typing import Annotated, Any

from litestar import Request, Router, get
from litestar.params import Parameter

from common import ids
from common.job_view import Links, view_job
from common.jobs import Status
from services.gateway.cursors import Place, read_cursor, show_cursor
from services.gateway.errors import READING, FieldError, document, invalid
from services.gateway.listing import JobFilter, JobLister
from services.gateway.routes.parameters import NameFilter, TimeFilter, read_span
from services.gateway.schemas import JobPage
from services.gateway.scopes import Scope, needs
from services.gateway.store import Key


@get(
    "/jobs",
    summary="Your jobs",
    operation_id="list_jobs",
    **needs(Scope.READ),
    responses=document(*READING),
)
async def list_jobs(
    request: Request[Key, Any, Any],
    lister: JobLister,
    links: Links,
    status: Status | None = None,
    model: NameFilter = None,
    batch: str | None = None,
    created_after: TimeFilter = None,
    created_before: TimeFilter = None,
    limit: Annotated[int, Parameter(ge=1, le=1000)] = 100,
    cursor: str | None = None,
) -> JobPage:
    """Newest first, without outputs; pass `next_cursor` as `cursor`, with the same filter, for the next page."""
    tenant_id = request.user.tenant_id
    batch_id = ids.parse(ids.Kind.BATCH, batch) if batch is not None else None
    if batch is not None and batch_id is None:
        raise invalid(FieldError("batch", "is not the id of a batch"))
    span = read_span(created_after, created_before)
    wanted = JobFilter(status=status, model=model, batch_id=batch_id, **span)
    behind = read_cursor(cursor, tenant_id, wanted) if cursor else None
    if cursor and behind is None:
        raise invalid(FieldError("cursor", "is none of ours, or of another filter"))
    rows = await lister.list(tenant_id, wanted, behind, limit + 1)
    items = [view_job(row, links, webhook_status="none") for row in rows[:limit]]
    last = Place(rows[limit - 1].created_at, rows[limit - 1].id) if len(rows) > limit else None
    return JobPage(items, show_cursor(last, tenant_id, wanted) if last else None)


router = Router("/", route_handlers=[list_jobs], tags=["Jobs"])
