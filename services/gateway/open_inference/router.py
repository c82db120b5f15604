"""The router of the Open Inference Protocol."""

from litestar import Router
from litestar.di import Provide

from services.gateway.auth.scopes import OWN_AUTHENTICATION
from services.gateway.open_inference import metadata_routes, routes
from services.gateway.open_inference.dependencies import InferenceServices

MODELS = [routes.infer, metadata_routes.get_metadata, metadata_routes.get_config, metadata_routes.get_ready]
SERVER = [metadata_routes.get_server, metadata_routes.get_live, metadata_routes.get_server_ready]


def make_router(services: InferenceServices) -> Router:
    public = Router("/", route_handlers=SERVER, opt={OWN_AUTHENTICATION: True}, security=[{}])
    return Router(
        "/",
        route_handlers=[*MODELS, public],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Open Inference Protocol"],
    )
