"""The router of a job's events."""

from litestar import Router
from litestar.di import Provide

from services.gateway.events.dependencies import EventServices
from services.gateway.events.routes import list_events
from services.gateway.events.websocket import stream_events


def make_router(services: EventServices) -> Router:
    return Router(
        "/jobs",
        route_handlers=[list_events, stream_events],
        dependencies={"services": Provide(lambda: services, sync_to_thread=False)},
        tags=["Jobs"],
    )
