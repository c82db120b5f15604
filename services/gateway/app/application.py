"""The application: the services behind their routes, within the middleware."""

from dataclasses import dataclass

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.routes import WebSocketRoute
from litestar.types import ASGIApp

from common.postgres.leadership import Leadership
from services.gateway.admin.audit import routes as audit
from services.gateway.admin.keys import routes as keys
from services.gateway.app.composition import Connections, Services, compose
from services.gateway.app.elected import make_leadership
from services.gateway.auth.authentication import AuthenticationMiddleware
from services.gateway.auth.rate_limits import RateLimitHeadersMiddleware
from services.gateway.batches import routes as batches
from services.gateway.events import router as events
from services.gateway.events.feed import routes as feed
from services.gateway.files import routes as files
from services.gateway.http import console, health, welcome
from services.gateway.http.bodies import ApiRequest
from services.gateway.http.cross_origin import allow_origins
from services.gateway.http.draining import DrainMiddleware, DrainState
from services.gateway.http.error_responses import HANDLERS
from services.gateway.http.error_shapes import PROTOCOL_SHAPES, STATE, ErrorShapes
from services.gateway.http.limits.body_limits import BodyBudget, BodyDeadlines, BodyLimitsMiddleware
from services.gateway.http.limits.response_budget import ResponseBudget
from services.gateway.http.limits.response_limits import ResponseLimitsMiddleware
from services.gateway.http.methods import HeadMiddleware, answer_options
from services.gateway.http.parameters import check_parameters
from services.gateway.http.problems import PROTOCOL
from services.gateway.http.telemetry import TelemetryMiddleware
from services.gateway.http.websockets import UnknownSocketMiddleware
from services.gateway.http.worker_processes import LARGE
from services.gateway.jobs import router as jobs
from services.gateway.models import routes as models
from services.gateway.open_inference import router as open_inference
from services.gateway.openai import problems as openai_problems
from services.gateway.openai.composition import make_routers
from services.gateway.openai.rate_limit_headers import OpenAIHeadersMiddleware
from services.gateway.openapi import document
from services.gateway.pipelines import routes as pipelines
from services.gateway.reports.stats import routes as stats
from services.gateway.reports.traces import routes as traces
from services.gateway.reports.usage import routes as usage
from services.gateway.settings import GatewaySettings
from services.gateway.webhooks import router as webhooks

# The forms of errors that are no problem documents.
SHAPES: ErrorShapes = {**PROTOCOL_SHAPES, openai_problems.PREFIX: openai_problems.shape_error}


@dataclass(frozen=True)
class Gateway:
    """The application, the same with its middleware, what a shutdown changes, and the work of the elected gateway."""

    app: Litestar
    asgi: ASGIApp
    drain: DrainState
    deadlines: BodyDeadlines
    leadership: Leadership


def build(settings: GatewaySettings, connections: Connections) -> Gateway:
    """Compose the gateway around its open connections."""
    drain, deadlines = DrainState(), BodyDeadlines()
    services = compose(settings, connections, drain)
    app = make_app(settings, services)
    budget = BodyBudget(settings.max_bodies_bytes)
    sockets = [route.path_format for route in app.routes if isinstance(route, WebSocketRoute)]
    # Around Litestar, to see requests that match no route; the last is the outermost.
    asgi: ASGIApp = RateLimitHeadersMiddleware(app)
    asgi = OpenAIHeadersMiddleware(asgi)
    asgi = UnknownSocketMiddleware(asgi, sockets)
    asgi = HeadMiddleware(asgi)
    asgi = BodyLimitsMiddleware(asgi, budget, deadlines)
    asgi = ResponseLimitsMiddleware(asgi, ResponseBudget(settings.max_responses_bytes))
    asgi = DrainMiddleware(asgi, drain, SHAPES)
    asgi = TelemetryMiddleware(asgi)
    return Gateway(app, asgi, drain, deadlines, make_leadership(connections.database, services))


def make_app(settings: GatewaySettings, services: Services) -> Litestar:
    authenticator = services.authenticator
    api = Router(
        "/v1",
        route_handlers=[
            jobs.make_router(services.jobs, settings.max_body_bytes),
            events.make_router(services.events),
            feed.make_router(services.feed),
            models.make_router(services.models),
            pipelines.make_router(services.pipelines),
            batches.make_router(services.batches, settings.max_batch_bytes),
            files.make_router(services.files),
            webhooks.make_router(services.webhooks),
            traces.make_router(services.traces),
            usage.make_router(services.usage),
            stats.make_router(services.stats),
            audit.make_router(services.audit),
            keys.make_router(services.keys),
        ],
        request_max_body_size=min(settings.max_body_bytes, LARGE),  # of bodies that Litestar decodes in place
        middleware=[lambda app: AuthenticationMiddleware(app, authenticator, check_parameters)],
    )
    protocol = Router(
        PROTOCOL,
        route_handlers=[open_inference.make_router(services.inference)],
        middleware=[lambda app: AuthenticationMiddleware(app, authenticator)],
    )
    openai_api = Router(
        openai_problems.PREFIX,
        route_handlers=make_routers(services.openai, settings.max_body_bytes),
        middleware=[lambda app: AuthenticationMiddleware(app, authenticator, check_parameters)],
    )
    return Litestar(
        route_handlers=[
            api,
            protocol,
            openai_api,
            console.router,
            welcome.router,
            health.make_router(services.readiness, shows_metrics=not settings.metrics_port),
            document.router,
        ],
        request_class=ApiRequest,
        before_request=answer_options,
        cors_config=allow_origins(settings.cors_origins),
        exception_handlers=HANDLERS,
        state=State({STATE: SHAPES}),
        request_max_body_size=settings.max_body_bytes,
        logging_config=None,  # logging is configured already
        openapi_config=document.make_config(),
    )
