"""HTTP route of embeddings."""

from http import HTTPStatus
from typing import Any

from litestar import MediaType, Response, post
from litestar.openapi.datastructures import ResponseSpec

from services.gateway.auth.scopes import Scope, needs
from services.gateway.jobs.idempotency.keys import IdempotencyKey
from services.gateway.openai.calls.documentation import SUBMIT, document
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.submission import Caller
from services.gateway.openai.dependencies import Services
from services.gateway.openai.embeddings.schemas import EmbeddingList
from services.gateway.openai.embeddings.translation import reshow, translate, write_list

NUMBER_BYTES = 8  # of a number, as far as the work on it counts


@post(
    "/embeddings",
    status_code=HTTPStatus.OK,
    summary="Embed texts",
    operation_id="create_embeddings",
    **needs(Scope.SUBMIT),
    responses={
        200: ResponseSpec(EmbeddingList, description="The vectors", generate_examples=False),
        **document(*SUBMIT),
    },
)
async def create_embeddings(
    request: Caller, services: Services, idempotency_key: IdempotencyKey = None
) -> Response[Any]:
    """Run one job with all texts, and return their vectors.

    What holds for the job, the client and the key is as for chat completions.
    """
    services.streams.check_capacity(request)
    call = await services.submission.submit(request, Endpoint.EMBEDDINGS, idempotency_key, translate, reshow)
    responses = await services.answers.wait(request, call)
    outputs = responses[0] if responses else {}
    size = NUMBER_BYTES * sum(map(len, outputs.values()))
    body = await services.submission.workers.work(size, write_list, call.row.model, outputs, call.shown)
    return Response(body, media_type=MediaType.JSON, headers=call.headers)
