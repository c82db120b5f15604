"""Lists the jobs of a run's steps."""

from uuid import UUID

from common.views.job import list_job
from services.gateway.http.pagination import open_cursor, seal_cursor
from services.gateway.http.parameters import wrong_cursor
from services.gateway.http.problems import FieldError, invalid
from services.gateway.jobs.dependencies import JobServices
from services.gateway.jobs.schemas import JobPage
from services.gateway.jobs.store import JobFilter, StepPlace

ELEMENT_BYTES = 4


async def list_step_jobs(
    services: JobServices, tenant_id: UUID, filters: JobFilter, limit: int, cursor: str | None
) -> JobPage:
    """Return a page of the jobs. Raises Problem (422)."""
    if filters.parent is None:
        raise invalid(FieldError("step", "needs `parent` with it, the id of a run"))
    if filters.batch_id is not None:
        raise invalid(FieldError("batch", "cannot be combined with `parent`: the jobs of steps are in no batch"))
    after = read_cursor(cursor, tenant_id, filters)
    found = await services.store.list_step_jobs(tenant_id, filters, after, limit + 1)
    items = [list_job(each.row, services.urls, await services.waits.explain(each.row)) for each in found[:limit]]
    last = found[limit - 1].place if len(found) > limit else None
    return JobPage(items, None if last is None else write_cursor(last, tenant_id, filters))


def write_cursor(place: StepPlace, tenant_id: UUID, filters: JobFilter) -> str:
    return seal_cursor(place.element.to_bytes(ELEMENT_BYTES) + place.step.encode(), tenant_id, filters)


def read_cursor(text: str | None, tenant_id: UUID, filters: JobFilter) -> StepPlace:
    """Return the place after which a page begins. Raises Problem (422)."""
    if not text:
        return StepPlace()
    raw = open_cursor(text, tenant_id, filters)
    try:
        if raw is None or len(raw) <= ELEMENT_BYTES:
            raise ValueError
        return StepPlace(raw[ELEMENT_BYTES:].decode(), int.from_bytes(raw[:ELEMENT_BYTES]))
    except ValueError as error:
        raise invalid(wrong_cursor()) from error
