"""Health, readiness and metrics."""

from collections.abc import Mapping

import msgspec
from litestar import MediaType, Response, Router, get
from litestar.di import NamedDependency, Provide
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import SkipValidation
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from common.http.health import Check, ReadinessView, check_health
from services.gateway.http.draining import DrainState


class Readiness:
    """Whether the gateway can take requests."""

    def __init__(self, checks: Mapping[str, Check], state: DrainState) -> None:
        """`checks` has one check for each dependency."""
        self._checks = checks
        self._state = state

    async def check(self) -> tuple[bool, ReadinessView]:
        """Return whether the gateway is ready, and the state of each dependency.

        It is not ready while it drains. Without the broker it is: jobs are accepted and run later.
        """
        ready, body = await check_health(self._checks, optional={"broker"})
        if self._state.draining:
            return False, msgspec.structs.replace(body, status="stopping")
        return ready, body


@get("/healthz", summary="Liveness: the process is alive", operation_id="healthz")
async def healthz() -> dict[str, str]:
    """Answer while the process runs."""
    return {"status": "ok"}


@get(
    "/readyz",
    summary="Readiness: the state of each dependency",
    operation_id="readyz",
    responses={503: ResponseSpec(ReadinessView, description="Not ready", generate_examples=False)},
)
async def readyz(services: NamedDependency[SkipValidation[Readiness]]) -> Response[ReadinessView]:
    """Answer 503 without the database, and from SIGTERM on. Without the broker, jobs are accepted and run later."""
    ready, body = await services.check()
    return Response(body, status_code=200 if ready else 503)


@get("/metrics", summary="Prometheus metrics", operation_id="metrics", media_type=MediaType.TEXT)
async def metrics() -> Response[bytes]:
    """Return the metrics of the gateway in the text format of Prometheus."""
    # Litestar adds the charset itself.
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST.removesuffix("; charset=utf-8"))


def make_router(readiness: Readiness, *, shows_metrics: bool) -> Router:
    return Router(
        "/",
        route_handlers=[healthz, readyz, *([metrics] if shows_metrics else [])],
        dependencies={"services": Provide(lambda: readiness, sync_to_thread=False)},
        tags=["Operations"],
        security=[{}],
    )
