"""Finds stored responses: jobs that a request for a response became."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple, TypeAlias

from common.job_states import Status
from services.gateway.http.limits.response_limits import LARGE, find_response_lease
from services.gateway.http.problems import Problem
from services.gateway.jobs.store import FoundJob
from services.gateway.openai.calls.answer import join
from services.gateway.openai.calls.submission import Caller
from services.gateway.openai.dependencies import OpenAIServices
from services.gateway.openai.ids import Prefix, parse
from services.gateway.openai.responses.echo import Echo, StoredRequest, read_request, show
from services.gateway.openai.responses.rendering import Answer, write_response
from services.gateway.openai.responses.views import OpenAIResponse

LONGEST_ID = 100  # characters of an id in an error
Hold: TypeAlias = Callable[[FoundJob], Awaitable[None]]


class StoredResponse(NamedTuple):
    """A response with its job."""

    found: FoundJob
    request: StoredRequest

    @property
    def echo(self) -> Echo:
        return self.request.echo


async def find_response(
    services: OpenAIServices, caller: Caller, response_id: str, hold: Hold
) -> StoredResponse | None:
    """Return the response of the caller's tenant, or None if there is none that it may get.

    `hold` is called before anything large is read. Raises what it raises.
    """
    store, tenant_id = services.jobs.store, caller.user.tenant_id
    job_id = parse(Prefix.RESPONSE, response_id)
    found = None if job_id is None else await store.find_job(job_id, tenant_id)
    if found is None or found.erased or found.request_size is None:
        return None
    await hold(found)
    if measure_unread(found):
        largest = max(LARGE, found.request_size, found.outputs_size or 0)
        found = await store.find_job(found.row.id, tenant_id, largest)
    if found is None or found.request is None:
        return None  # it was erased meanwhile
    request = await services.submission.workers.work(len(found.request), read_request, found.request)
    return None if request is None else StoredResponse(found, request)


def measure_unread(found: FoundJob) -> int:
    """Return the bytes of a job's request and outputs that are not read because they are large."""
    request = found.request_size if found.request is None else 0
    outputs = found.outputs_size if found.outputs is None else 0
    return (request or 0) + (outputs or 0)


async def load_response(services: OpenAIServices, caller: Caller, response_id: str) -> StoredResponse:
    """Return a response, of which the answer holds what is large. Raises Problem: 404, or 503 without room for it."""

    async def hold(found: FoundJob) -> None:
        if size := measure_unread(found):
            await find_response_lease(caller.scope).reserve(found.row.tenant_id, size)

    stored = await find_response(services, caller, response_id, hold)
    if stored is None:
        raise unknown(response_id)
    return stored


def unknown(response_id: str) -> Problem:
    text = (
        f"response '{response_id[:LONGEST_ID]}' not found; it never existed, was deleted, has `store: false`, or "
        "belongs to another tenant"
    )
    return Problem(HTTPStatus.NOT_FOUND, "not_found", text)


async def read_answer(services: OpenAIServices, caller: Caller, stored: StoredResponse) -> Answer | None:
    """Return what the model has written, if the job has succeeded. Raises Problem (410, 500, 503)."""
    if stored.found.row.status is not Status.SUCCEEDED:
        return None
    outputs = await services.answers.read(caller, stored.found)
    return Answer(*join(stored.found.row, outputs, show(stored.echo)))


async def view_response(services: OpenAIServices, caller: Caller, stored: StoredResponse) -> OpenAIResponse:
    """Return a response as clients see it. Raises as `read_answer` does."""
    return write_response(stored.found.row, stored.echo, await read_answer(services, caller, stored))
