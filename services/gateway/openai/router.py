"""The router of OpenAI's API."""

from litestar import Router
from litestar.di import Provide

from services.gateway.openai.chat import routes as chat
from services.gateway.openai.completions import routes as completions
from services.gateway.openai.dependencies import OpenAIServices
from services.gateway.openai.embeddings import routes as embeddings
from services.gateway.openai.models import routes as models

HANDLERS = [
    models.list_openai_models,
    models.get_openai_model,
    chat.create_chat_completion,
    completions.create_completion,
    embeddings.create_embeddings,
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
