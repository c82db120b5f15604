"""The router of OpenAI's API."""

from litestar import Router
from litestar.di import Provide

from services.gateway.openai.chat import routes as chat
from services.gateway.openai.completions import routes as completions
from services.gateway.openai.dependencies import OpenAIServices
from services.gateway.openai.embeddings import routes as embeddings
from services.gateway.openai.models import routes as models
from services.gateway.openai.responses import routes as responses
from services.gateway.openai.responses import stored_routes as stored_responses

HANDLERS = [
    models.list_openai_models,
    models.get_openai_model,
    chat.create_chat_completion,
    completions.create_completion,
    embeddings.create_embeddings,
    responses.create_response,
    stored_responses.get_response,
    stored_responses.cancel_response,
    stored_responses.delete_response,
    stored_responses.list_input_items,
]


def make_router(services: OpenAIServices, max_body: int) -> Router:
    """`max_body` limits the body of a request, in bytes."""
    return Router(
        "/",
        route_handlers=[*HANDLERS],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        request_max_body_size=max_body,
        tags=["OpenAI"],
    )
