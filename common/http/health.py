"""/healthz, /readyz and /metrics, for services without a web framework."""

from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from common.http.request_head_limits import LimitedHeadProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator

Check = Callable[[], Awaitable[bool]]


class Server(uvicorn.Server):
    """uvicorn, without its signal handlers: the service handles signals."""

    @contextmanager
    def capture_signals(self) -> "Iterator[None]":
        """Do nothing."""
        yield


async def check_health(checks: Mapping[str, Check], optional: Container[str] = ()) -> tuple[bool, dict[str, Any]]:
    """Return whether all checks pass, except optional ones, and the body with the state of each."""
    states = {name: "ok" if await check() else "down" for name, check in checks.items()}
    down = [name for name, state in states.items() if state == "down"]
    ready = all(name in optional for name in down)
    status = "ok" if not down else "degraded" if ready else "down"
    return ready, {"status": status, "checks": states}


def serve(host: str, port: int, checks: Mapping[str, Check]) -> Server:
    """Return a server of the three paths. Run it with `serve()`. Stop it by setting `should_exit`."""

    async def respond(path: str) -> tuple[int, str, bytes]:
        match path:
            case "/healthz":
                return 200, "application/json", b'{"status":"ok"}'
            case "/readyz":
                ready, body = await check_health(checks)
                return 200 if ready else 503, "application/json", msgspec.json.encode(body)
            case "/metrics":
                return 200, CONTENT_TYPE_LATEST, generate_latest()
            case _:
                return 404, "text/plain", b"not found"

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        status, content_type, body = await respond(scope["path"])
        headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return Server(server_config(app, host, port))


def server_config(app: Any, host: str, port: int, **options: Any) -> uvicorn.Config:
    """Return the settings of every HTTP server: no log, no lifespan, no Server header."""
    protocols: dict[str, Any] = {"ws": "none", "http": LimitedHeadProtocol}
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        **protocols | options,
    )
