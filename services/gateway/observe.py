"""Each request's span and metrics, around the whole application, so that its errors are seen too."""

import time
from typing import Any

from opentelemetry.trace import SpanKind, Status, StatusCode
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
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"

        async def watch(message: ASGI) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        started = time.perf_counter()
        if scope["path"] in OPERATIONS:
            await app(scope, receive, watch)
        else:
            with tracing.tracer.start_as_current_span(
                method, tracing.context_of(find_traceparent(scope)), SpanKind.SERVER
            ) as span:
                await app(scope, receive, watch)
                if span.is_recording():
                    span.update_name(f"{method} {find_route(scope)}")
                    span.set_attributes(describe(scope, method, status))
                if status >= 500:
                    span.set_status(Status(StatusCode.ERROR))
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


def describe(scope: ASGI, method: str, status: int) -> dict[str, str | int]:
    return {
        "http.request.method": method,
        "http.route": find_route(scope),
        "http.response.status_code": status,
        "url.path": scope["path"],
        "url.scheme": scope["scheme"],
    }
