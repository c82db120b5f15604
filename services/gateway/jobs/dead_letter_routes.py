"""HTTP routes of dead letters: jobs that failed for good."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, get, post

from common import ids
from common.telemetry.logs import Log
from common.views.job import list_job
from services.gateway.auth.scopes import Scope, needs
from services.gateway.auth.store import Key
from services.gateway.http.parameters import (
    CreatedAfter,
    CreatedBefore,
    CursorParameter,
    Limit,
    ModelFilter,
    explain_id,
    make_name_filter,
    parse_cursor,
    read_span,
)
from services.gateway.http.problems import ANY_CALL, WITH_BODY, FieldError, document, invalid
from services.gateway.http.telemetry import identify_caller
from services.gateway.jobs.actions.retry import REPLAYABLE
from services.gateway.jobs.dependencies import Services
from services.gateway.jobs.schemas import DeadFilter, DeadLetterPage, Replay, Replayed

DEFAULT_LIMIT = 100  # jobs of one replay by filter

log = Log("job")

Caller = Request[Key, Any, Any]


@get(
    "/dead-letters",
    summary="List the dead letters",
    operation_id="list_dead_letters",
    **needs(Scope.READ),
    responses=document(*ANY_CALL),
)
async def list_dead_letters(
    request: Caller,
    services: Services,
    model: ModelFilter = None,
    error: Annotated[str | None, make_name_filter("Only jobs that failed with this error code.")] = None,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    limit: Limit = 100,
    cursor: CursorParameter = None,
) -> DeadLetterPage:
    """Return jobs that failed for good, newest first. Pass `next_cursor` as `cursor` to get the next page."""
    before = parse_cursor(ids.Kind.JOB, cursor)
    filters = DeadFilter(model=model, error=error, **read_span(created_after, created_before))
    rows = await services.store.list_dead_letters(request.user.tenant_id, before, filters, limit + 1)
    items = [list_job(row, services.urls) for row in rows[:limit]]
    return DeadLetterPage(items, items[-1].id if len(rows) > limit else None)


@post(
    "/dead-letters/replay",
    status_code=HTTPStatus.ACCEPTED,
    summary="Replay dead letters",
    operation_id="replay_dead_letters",
    **needs(Scope.ADMIN),
    responses=document(*WITH_BODY),
)
async def replay_dead_letters(request: Caller, data: Replay, services: Services) -> Replayed:
    """Queue failed jobs again: the given ids, or the newest that match a filter. One of the two is required.

    They run on their own models, or on `target_model`. `remaining` tells whether the filter matches more jobs.
    """
    check_selection(data)
    if data.ids is not None:
        jobs, remaining = parse_ids(data.ids), False
    else:
        limit = data.limit or DEFAULT_LIMIT
        filters = data.filter or DeadFilter()
        rows = await services.store.list_dead_letters(request.user.tenant_id, None, filters, limit + 1)
        jobs, remaining = [row.id for row in rows[:limit]], len(rows) > limit
    replayed, refused = await services.retrier.retry(request.user, jobs, REPLAYABLE, data.target_model)
    services.retrier.announce(replayed)
    log.info("dead_letters.replayed", count=len(replayed), model=data.target_model, **identify_caller(request))
    others = [job for job in jobs if job not in replayed]
    skipped = await services.retrier.explain_skips(request.user.tenant_id, others, refused)
    return Replayed([ids.encode(ids.Kind.JOB, job) for job in jobs if job in replayed], skipped, remaining)


def check_selection(data: Replay) -> None:
    """Raise Problem (422) unless the request has ids or a filter. Without them, a typo would replay everything."""
    if data.ids is None and data.filter is None:
        text = 'must have ids or filter: {"ids": ["job_…"]}, or {"filter": {"model": "…"}}; {"filter": {}} is every job'
        raise invalid(FieldError("", text))
    if data.ids is not None and data.filter is not None:
        raise invalid(FieldError("/filter", "cannot be combined with ids; send one of the two"))
    if data.ids is not None and data.limit is not None:
        raise invalid(FieldError("/limit", "is only for a filter; leave it out"))


def parse_ids(texts: Sequence[str]) -> list[UUID]:
    """Return the jobs, each once. Raises Problem (422) for the first invalid id."""
    jobs = []
    for index, text in enumerate(texts):
        job = ids.parse(ids.Kind.JOB, text)
        if job is None:
            raise invalid(FieldError(f"/ids/{index}", explain_id(ids.Kind.JOB, text)))
        jobs.append(job)
    return list(dict.fromkeys(jobs))
