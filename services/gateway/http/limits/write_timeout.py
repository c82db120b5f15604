"""Closes connections whose client does not read, to free the memory that their requests hold."""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from common.http.request_head_limits import LimitedHeadProtocol
from common.telemetry.logs import Log

log = Log("http")


class WriteTimeout(asyncio.Protocol):
    """Aborts a connection that reads nothing for `seconds` while the transport's write buffer is full.

    A slow reader keeps its connection: meanwhile uvicorn pauses the application.
    """

    seconds: float
    transport: asyncio.Transport
    _timer: asyncio.TimerHandle | None = None
    _buffered = 0  # bytes, at the last check

    def pause_writing(self) -> None:
        super().pause_writing()
        self._check_later()

    def resume_writing(self) -> None:
        self._cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def _check_later(self) -> None:
        self._buffered = self.transport.get_write_buffer_size()
        self._timer = asyncio.get_running_loop().call_later(self.seconds, self._check)

    def _check(self) -> None:
        if self.transport.get_write_buffer_size() < self._buffered:
            self._check_later()
            return
        log.warning("client.stalled", bytes=self._buffered, seconds=self.seconds)
        self.transport.abort()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class DrainedMessages(WebSocketsSansIOProtocol):
    """Returns from a send once the client has read the message, but for a small rest.

    uvicorn returns at once, and waits before the next send. The memory of a large message would not be counted.
    """

    async def send(self, message: Any) -> None:
        await super().send(message)
        try:
            await self.writable.wait()
        except asyncio.CancelledError:  # nobody waits for the rest of the message
            self.transport.abort()
            raise


def make_protocols(timeout: float) -> dict[str, Any]:
    """Return the protocol classes for uvicorn's configuration; `timeout` in seconds."""
    fields = {"seconds": timeout}
    return {
        "http": type("Http", (WriteTimeout, LimitedHeadProtocol), fields),
        "ws": type("WebSocket", (WriteTimeout, DrainedMessages), fields),
    }
