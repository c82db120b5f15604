"""HTTP route that creates responses."""

from functools import partial
from http import HTTPStatus
from typing import Any

from litestar import Response, post
from litestar.openapi.datastructures import ResponseSpec

from common.job_states import TERMINAL
from services.gateway.auth.scopes import Scope, needs
from services.gateway.jobs.idempotency.keys import IdempotencyKey
from services.gateway.openai.calls.answer import join
from services.gateway.openai.calls.documentation import SUBMIT, document
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.submission import Call, Caller
from services.gateway.openai.calls.translation import Shown
from services.gateway.openai.dependencies import OpenAIServices, Services
from services.gateway.openai.responses.echo import ShownResponse
from services.gateway.openai.responses.history import read_history
from services.gateway.openai.responses.rendering import Answer, write_response
from services.gateway.openai.responses.streams import stream_created
from services.gateway.openai.responses.translation import NeedsHistory, reshow, translate
from services.gateway.openai.responses.views import OpenAIResponse


@post(
    "/responses",
    status_code=HTTPStatus.OK,
    summary="Create a response",
    operation_id="create_response",
    **needs(Scope.SUBMIT),
    responses={
        200: ResponseSpec(OpenAIResponse, description="The response, or the stream", generate_examples=False),
        **document(*SUBMIT),
    },
)
async def create_response(request: Caller, services: Services, idempotency_key: IdempotencyKey = None) -> Response[Any]:
    """Run a job with a language model and return its answer, or stream it.

    With `background`, the job runs whether or not anybody waits, and the answer has the status `queued`, or is the
    stream. Without it, what holds for the job, the client and the key is as for chat completions.
    """
    call = await submit(request, services, idempotency_key)
    shown = narrow(call.shown)
    call = call._replace(is_kept=call.is_kept or bool(shown.echo.background))
    if shown.stream:
        return stream_created(services, request, call, shown.echo)
    if shown.echo.background and call.row.status not in TERMINAL:  # it may have taken a result at once
        return Response(write_response(call.row, shown.echo), headers=call.headers)
    row, outputs = await services.answers.finish(request, call)
    return Response(write_response(row, shown.echo, Answer(*join(row, outputs, shown))), headers=call.headers)


async def submit(request: Caller, services: OpenAIServices, key: str | None) -> Call:
    """Submit the job of a request, with the responses that it continues. Raises as Submission.submit does."""

    def check(shown: Shown) -> None:
        if shown.stream or not narrow(shown).echo.background:
            services.streams.check_capacity(request)

    submit_body = partial(services.submission.submit, request, Endpoint.RESPONSES, key, reshow=reshow, check=check)
    try:
        return await submit_body(translate)
    except NeedsHistory as needed:
        previous = needed.previous
    turns = await read_history(services, request, previous)
    size = sum(len(turn.body) + len(turn.text) for turn in turns)
    return await submit_body(partial(translate, turns=turns), more=size)


def narrow(shown: Shown) -> ShownResponse:
    assert isinstance(shown, ShownResponse), "the translation of responses makes no other"
    return shown
