"""One connection to RabbitMQ, kept alive by one loop.

Whatever is lost on it (the connection, a channel, a consumer), everything on it is made anew.
(docs/decisions/0003-plain-connections.md says why these are not aio-pika's robust ones.)
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import aio_pika
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

from common.errors import BrokerUnavailable
from common.logs import Log

CONNECT_SECONDS = 10.0
FURNISH_SECONDS = 30.0  # for all that belongs on a connection: a dispatcher consumes three queues for each model
CALL_SECONDS = 5.0
RECONNECT_SECONDS = 0.5
HEARTBEAT_SECONDS = 10
PROBE_SECONDS = 10.0  # between looks whether a connection still does what it is for
TROUBLE = (AMQPError, ChannelInvalidStateError, OSError, TimeoutError, RuntimeError)

log = Log("broker")


async def bounded(call: Awaitable[object]) -> object:
    """The call within its deadline; raises BrokerUnavailable for whatever a lost connection makes of it."""
    task = asyncio.current_task()
    assert task is not None, "only a task awaits"
    before = task.cancelling()
    try:
        return await translate(call)
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError  # aio-pika may swallow it, and its caller would go on for ever


async def translate(call: Awaitable[object]) -> object:
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return await call
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise BrokerUnavailable from None  # aio-pika cancels its callers when a heartbeat stays away
    except TROUBLE as error:
        raise BrokerUnavailable(f"broker: {type(error).__name__}: {error}") from error
    except Exception as error:
        if type(error) is not Exception:  # aiormq's, where we close the connection under a call
            raise
        raise BrokerUnavailable("broker: the connection was closed") from error


class Link:
    """One connection, kept alive."""

    def __init__(
        self,
        url: str,
        name: str,
        furnish: Callable[[AbstractConnection], Awaitable[None]],
        probe: Callable[[AbstractConnection], Awaitable[None]],
    ) -> None:
        """`furnish` opens what belongs on each new connection, and calls `lose` when part of it is lost.

        `probe` raises BrokerUnavailable, or takes too long, when the connection no longer does what it is for.
        """
        self.probe = probe
        self.url = url
        self.name = name
        self.furnish = furnish
        self.connection: AbstractConnection | None = None
        self.lost = asyncio.Event()

    @property
    def is_up(self) -> bool:
        return self.connection is not None and not self.lost.is_set()

    @property
    def is_blocked(self) -> bool:
        """Whether the broker has said that it takes nothing on this connection."""
        if not self.is_up or self.connection is None or self.connection.transport is None:
            return False
        ready = self.connection.transport.connection.ready()  # the one thing that tells: it waits while blocked
        try:
            ready.send(None)
        except StopIteration:
            return False
        finally:
            ready.close()
        return True

    async def check(self) -> bool:
        """For /readyz."""
        return self.is_up

    def lose(self, *_: object) -> None:
        self.lost.set()

    async def run(self) -> None:
        """Connects, again and again, until cancelled."""
        while True:
            self.lost.clear()
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    connection = await aio_pika.connect(
                        self.url,
                        timeout=CALL_SECONDS,
                        heartbeat=HEARTBEAT_SECONDS,
                        client_properties={"connection_name": self.name},
                    )
            except TROUBLE as error:
                log.warning("broker.unreachable", connection=self.name, error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            try:
                await self.keep(connection)
            finally:
                self.connection = None
                with contextlib.suppress(BrokerUnavailable):
                    await bounded(connection.close())
            await asyncio.sleep(RECONNECT_SECONDS)

    async def keep(self, connection: AbstractConnection) -> None:
        """Furnishes a new connection and returns once something on it is lost."""
        connection.close_callbacks.add(self.lose)
        try:
            async with asyncio.timeout(FURNISH_SECONDS):
                await self.furnish(connection)
        except TROUBLE as error:
            log.warning("broker.not_usable", connection=self.name, error=f"{type(error).__name__}: {error}")
            return
        self.connection = connection
        log.info("broker.connected", connection=self.name)
        await self.guard(connection)
        log.warning("broker.lost", connection=self.name)

    async def guard(self, connection: AbstractConnection) -> None:
        """Returns once the connection is lost, or is there and does nothing any more: a watchdog."""
        while not self.lost.is_set():
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    await self.lost.wait()
            except TimeoutError:
                try:
                    await bounded(self.probe(connection))
                except BrokerUnavailable as error:
                    log.warning("broker.silent", connection=self.name, error=error)
                    self.lose()
