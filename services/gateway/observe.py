"""Each request's span and metrics, around the whole application, so that its errors are seen too."""

import time
from typing import Any

from opentelemetry.trace import SpanKind
from prometheus_client import Counter, Histogram

from common import tracing

ASGI = Any  # an ASGI application, scope, receive or send: the protocol has no types of its own

requests = Counter("charonia_http_requests", "Requests answered.", ["method", "route", "status"])
seconds = Histogram(
    "charonia_http_request_seconds",
    "Time to the end of the answer.",
    ["method", "route"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5, 60),
)
OTHER = "_OTHER"
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
# Asked every few seconds: no spans of these.
OPERATIONS = ("/healthz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready")


def observe(app: ASGI) -> ASGI:
    """The application with a SERVER span (HTTP semantic conventions), RED metrics, and nothing else changed."""

    async def observed(scope: ASGI, receive: ASGI, send: ASGI) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        status = 500
        method = scope["method"] if scope["method"] in METHODS else OTHER

        async def watch(message: ASGI) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        started = time.perf_counter()
        if scope["path"] in OPERATIONS:
            await app(scope, receive, watch)
        else:
            with tracing.begin(method, tracing.context_of(find_traceparent(scope)), SpanKind.SERVER) as span:
                await app(scope, receive, watch)
                if span.is_recording():
                    span.update_name(name_span(scope, method))
                    span.set_attributes(describe(scope, method, status))
                if status >= 500:
                    tracing.fail(span, str(status))
        requests.labels(method, find_route(scope), status).inc()
        seconds.labels(method, find_route(scope)).observe(time.perf_counter() - started)

    return observed


def find_traceparent(scope: ASGI) -> str | None:
    for name, value in scope["headers"]:
        if name == b"traceparent":
            text: str = value.decode("latin-1")
            return text
    return None


def find_route(scope: ASGI) -> str:
    """The path's template, as Litestar's routing leaves it in the scope; never the path, which has no bound."""
    route: str = scope.get("path_template") or "unmatched"
    return route


def name_span(scope: ASGI, method: str) -> str:
    """By the route, never the path."""
    shown = "HTTP" if method == OTHER else method
    return f"{shown} {scope['path_template']}" if scope.get("path_template") else shown


def describe(scope: ASGI, method: str, status: int) -> dict[str, str | int]:
    """By the conventions; without the query, which may have a signature in it."""
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
    if scope.get("server"):
        found["server.address"], found["server.port"] = scope["server"]
    if scope.get("client"):
        found["client.address"] = scope["client"][0]
    return found
