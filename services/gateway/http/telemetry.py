"""Each request's span, metrics and log fields. The middleware wraps the whole application to see errors too."""

import time
from typing import Any

from litestar.connection import ASGIConnection
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, get_current_span
from prometheus_client import Counter, Histogram

from common import ids
from common.telemetry import tracing

requests = Counter("charonia_http_requests", "Requests answered.", ["method", "route", "status"])
seconds = Histogram(
    "charonia_http_request_seconds",
    "Time to the end of the answer.",
    ["method", "route"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 60),
)
OTHER = "_OTHER"
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
# Probed every few seconds: not traced.
UNTRACED = ("/healthz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready")


class TelemetryMiddleware:
    """Adds a SERVER span (HTTP semantic conventions) and RED metrics to each request, and its trace to the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            await self._measure(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _measure(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        status = 500
        method = scope["method"] if scope["method"] in METHODS else OTHER
        headers: list[tuple[bytes, bytes]] = []  # that this middleware adds

        async def start_answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        started = time.perf_counter()
        if scope["path"] in UNTRACED:
            await self._app(scope, receive, start_answer)
        else:
            with tracing.start_span(method, find_parent(scope), SpanKind.SERVER) as span:
                headers.append((b"traceresponse", tracing.to_traceparent(span).encode()))
                await self._app(scope, receive, start_answer)
                if span.is_recording():
                    span.update_name(name_span(scope, method))
                    span.set_attributes(describe(scope, method, status))
                if status >= 500:
                    tracing.record_error(span, str(status))
        requests.labels(method, find_route(scope), status).inc()
        seconds.labels(method, find_route(scope)).observe(time.perf_counter() - started)


def identify_caller(request: ASGIConnection[Any, Any, Any, Any]) -> dict[str, str]:
    """Return log fields: the tenant if the key was looked up, and the trace if there is one."""
    key, span = request.scope.get("user"), get_current_span().get_span_context()
    found = {"tenant": ids.encode(ids.Kind.TENANT, key.tenant_id)} if key else {}
    return found | ({"trace_id": f"{span.trace_id:032x}"} if span.is_valid else {})


def find_parent(scope: HTTPScope) -> Context:
    """Return the context of the caller's span. Without tracing, a request without one begins a trace here."""
    sent = tracing.to_context(find_traceparent(scope))
    return tracing.to_context(tracing.new_traceparent()) if not sent and tracing.is_off() else sent


def find_traceparent(scope: HTTPScope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"traceparent":
            text: str = value.decode("latin-1")
            return text
    return None


def find_route(scope: HTTPScope) -> str:
    """Return the path's template, which Litestar's routing sets; the path itself would be unbounded."""
    route: str = scope.get("path_template") or "unmatched"
    return route


def name_span(scope: HTTPScope, method: str) -> str:
    """Name a span by its route, never by its path."""
    shown = "HTTP" if method == OTHER else method
    return f"{shown} {scope['path_template']}" if scope.get("path_template") else shown


def describe(scope: HTTPScope, method: str, status: int) -> dict[str, str | int]:
    """Return the attributes of the conventions; the query is left out, for it may contain a signature."""
    found: dict[str, str | int] = {
        "http.request.method": method,
        "http.response.status_code": status,
        "url.path": scope["path"],
        "url.scheme": scope["scheme"],
        "network.protocol.version": scope["http_version"],
    }
    if method == OTHER:
        found["http.request.method_original"] = scope["method"]
    if scope.get("path_template"):
        found["http.route"] = scope["path_template"]
    if (server := scope.get("server")) is not None:
        found["server.address"], port = server
        if port is not None:
            found["server.port"] = port
    if (client := scope.get("client")) is not None:
        found["client.address"] = client[0]
    return found
