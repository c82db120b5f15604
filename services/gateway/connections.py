"""Connections whose other end does not read: what is sent is held for so long only, with all that its request holds."""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from common.heads import BoundedHead
from common.logs import Log

log = Log("http")


class Impatient(asyncio.Protocol):
    """Cuts a connection that takes nothing for `seconds` while more is waiting than the transport likes to hold.

    A slow one that takes a little is waited for: meanwhile uvicorn lets nothing more be sent.
    """

    seconds: float
    transport: asyncio.Transport
    timer: asyncio.TimerHandle | None = None
    waiting = 0  # bytes, when last seen

    def pause_writing(self) -> None:
        super().pause_writing()
        self.look_later()

    def resume_writing(self) -> None:
        self.stop()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop()
        super().connection_lost(exc)

    def look_later(self) -> None:
        self.waiting = self.transport.get_write_buffer_size()
        self.timer = asyncio.get_running_loop().call_later(self.seconds, self.look)

    def look(self) -> None:
        if self.transport.get_write_buffer_size() < self.waiting:
            self.look_later()
            return
        log.warning("client.stalled", bytes=self.waiting, seconds=self.seconds)
        self.transport.abort()

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def protocols(timeout: float) -> dict[str, Any]:
    """uvicorn's, for its configuration; `timeout` in seconds."""
    own = {"seconds": timeout}
    return {
        "http": type("Http", (Impatient, BoundedHead), own),
        "ws": type("WebSocket", (Impatient, WebSocketsSansIOProtocol), own),
    }
