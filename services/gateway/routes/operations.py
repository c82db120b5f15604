"""Health, readiness and metrics."""

from typing import Any

from litestar import MediaType, Request, Response, Router, get
from litestar.openapi.datastructures import ResponseSpec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from common.health import report
from services.gateway.openapi import describe


@get("/healthz", summary="The process is alive", operation_id="healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@get(
    "/readyz",
    summary="Whether each dependency answers, by name",
    operation_id="readyz",
    responses={503: ResponseSpec(dict[str, Any], description="Not ready", generate_examples=False)},
)
async def readyz(request: Request[Any, Any, Any]) -> Response[dict[str, Any]]:
    """503 without the database, and from SIGTERM on; without the broker jobs are accepted, and run when it is back."""
    ready, body = await report(request.app.state.checks, optional={"broker"})
    if request.app.state.rotation.left:
        ready, body["status"] = False, "stopping"
    return Response(body, status_code=200 if ready else 503)


@get("/metrics", summary="Prometheus metrics", operation_id="metrics", media_type=MediaType.TEXT)
async def metrics() -> Response[bytes]:
    # Litestar adds the charset itself.
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8"))


@get("/openapi.json", include_in_schema=False)
async def openapi(request: Request[Any, Any, Any]) -> dict[str, Any]:
    return describe(request.app)


router = Router("/", route_handlers=[healthz, readyz, metrics, openapi], tags=["Operations"], security=[{}])
