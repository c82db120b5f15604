"""HTTP route of completions."""

from http import HTTPStatus
from typing import Any

from litestar import Response, post
from litestar.openapi.datastructures import ResponseSpec

from services.gateway.auth.scopes import Scope, needs
from services.gateway.jobs.idempotency.keys import IdempotencyKey
from services.gateway.openai.calls.answer import join
from services.gateway.openai.calls.documentation import SUBMIT, document
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.submission import Caller
from services.gateway.openai.completions.rendering import CompletionChunkWriter, write_completion
from services.gateway.openai.completions.schemas import Completion
from services.gateway.openai.completions.translation import reshow, translate
from services.gateway.openai.dependencies import Services


@post(
    "/completions",
    status_code=HTTPStatus.OK,
    summary="Continue a text",
    operation_id="create_completion",
    **needs(Scope.SUBMIT),
    responses={
        200: ResponseSpec(Completion, description="The answer, or the stream", generate_examples=False),
        **document(*SUBMIT),
    },
)
async def create_completion(
    request: Caller, services: Services, idempotency_key: IdempotencyKey = None
) -> Response[Any]:
    """Run a job with a language model and return its text, or stream it.

    What holds for the job, the client and the key is as for chat completions.
    """
    services.streams.check_capacity(request)
    call = await services.submission.submit(request, Endpoint.COMPLETIONS, idempotency_key, translate, reshow)
    if call.shown.stream:
        return services.streams.open(request, call, CompletionChunkWriter(call.row, call.shown))
    row, outputs = await services.answers.finish(request, call)
    text, transcript = join(row, outputs, call.shown)
    return Response(write_completion(call.row, call.shown, text, transcript), headers=call.headers)
