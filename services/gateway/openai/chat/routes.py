"""HTTP route of chat completions."""

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
from services.gateway.openai.chat.rendering import ChatChunkWriter, write_completion
from services.gateway.openai.chat.schemas import ChatCompletion
from services.gateway.openai.chat.translation import reshow, translate
from services.gateway.openai.dependencies import Services


@post(
    "/chat/completions",
    status_code=HTTPStatus.OK,
    summary="Continue a conversation",
    operation_id="create_chat_completion",
    **needs(Scope.SUBMIT),
    responses={
        200: ResponseSpec(ChatCompletion, description="The answer, or the stream", generate_examples=False),
        **document(*SUBMIT),
    },
)
async def create_chat_completion(
    request: Caller, services: Services, idempotency_key: IdempotencyKey = None
) -> Response[Any]:
    """Run a job with a language model and return its answer, or stream it.

    The job is canceled if the client leaves. With an `Idempotency-Key` it continues: the same request gets the same
    answer later. `X-Charonia-Job` has the id of the job.
    """
    services.streams.check_capacity(request)
    call = await services.submission.submit(request, Endpoint.CHAT, idempotency_key, translate, reshow)
    if call.shown.stream:
        return services.streams.open(request, call, ChatChunkWriter(call.row, call.shown))
    row, outputs = await services.answers.finish(request, call)
    text, transcript = join(row, outputs, call.shown)
    return Response(write_completion(call.row, text, transcript), headers=call.headers)
