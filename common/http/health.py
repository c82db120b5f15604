"""/healthz, /readyz and /metrics, for services without a web framework."""

from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from common.http.request_head_limits import LimitedHeadProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from socket import socket

Check = Callable[[], Awaitable[bool]]
Node = Callable[[], str | None]
NO_NODES: Mapping[str, Node] = {}


class ReadinessView(msgspec.Struct, frozen=True):
    """Whether a service can take work, and the state of each dependency."""

    status: Literal["ok", "degraded", "down", "stopping"]
    """`ok`: every dependency answers. `degraded`: one is away that is not needed for every call. `down`: one is away
    that is. `stopping`: the service drains."""
    checks: dict[str, Literal["ok", "down"]]
    """The state of each dependency."""


class Server(uvicorn.Server):
    """uvicorn, without its signal handlers: the service handles signals."""

    @contextmanager
    def capture_signals(self) -> "Iterator[None]":
        """Do nothing."""
        yield

    async def startup(self, sockets: "list[socket] | None" = None) -> None:
        """Listen. Raise SystemExit, with the address, if that fails; uvicorn has logged why."""
        try:
            await super().startup(sockets)
        except SystemExit:
            raise SystemExit(f"cannot listen on {self.config.host}:{self.config.port}") from None


async def check_health(checks: Mapping[str, Check], optional: Container[str] = ()) -> tuple[bool, ReadinessView]:
    """Return whether all checks pass, except optional ones, and the body with the state of each."""
    states: dict[str, Literal["ok", "down"]] = {
        name: "ok" if await check() else "down" for name, check in checks.items()
    }
    down = [name for name, state in states.items() if state == "down"]
    ready = all(name in optional for name in down)
    status: Literal["ok", "degraded", "down"] = "ok" if not down else "degraded" if ready else "down"
    return ready, ReadinessView(status, states)


def serve(host: str, port: int, checks: Mapping[str, Check], nodes: Mapping[str, Node] = NO_NODES) -> Server:
    """Return a server of the three paths. Run it with `serve()`. Stop it by setting `should_exit`.

    `nodes` tell which server of a dependency is in use. They are for operators: the port must not be public.
    """

    async def respond(path: str) -> tuple[int, str, bytes]:
        match path:
            case "/healthz":
                return 200, "application/json", b'{"status":"ok"}'
            case "/readyz":
                ready, view = await check_health(checks)
                used = {name: node() if view.checks[name] == "ok" else None for name, node in nodes.items()}
                body = msgspec.json.encode(msgspec.structs.asdict(view) | {"nodes": used})
                return 200 if ready else 503, "application/json", body
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
