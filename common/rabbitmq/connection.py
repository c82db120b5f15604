"""One connection to RabbitMQ, kept open by one loop.

When the connection, a channel or a consumer is lost, the loop opens all of them again.
docs/decisions/0003-plain-connections.md says why these are not aio-pika's robust connections.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import aio_pika
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

from common.errors import BrokerUnavailable
from common.telemetry.logs import Log

CONNECT_SECONDS = 10.0
SETUP_SECONDS = 30.0  # a dispatcher consumes three queues for each model
CALL_SECONDS = 5.0
RECONNECT_SECONDS = 0.5
HEARTBEAT_SECONDS = 10
PROBE_SECONDS = 10.0  # between two probes
CONNECTION_ERRORS = (AMQPError, ChannelInvalidStateError, OSError, TimeoutError, RuntimeError)

log = Log("broker")


class _Connection(aio_pika.Connection):
    def __del__(self) -> None:
        """Do nothing. The base class calls `close` here, and without a running loop nobody awaits it."""


async def connect(url: str, name: str) -> AbstractConnection:
    """Connect within CALL_SECONDS. The caller closes the connection. `name` is its name in the management UI."""
    return await aio_pika.connect(
        url,
        timeout=CALL_SECONDS,
        heartbeat=HEARTBEAT_SECONDS,
        client_properties={"connection_name": name},
        connection_class=_Connection,
    )


async def with_deadline(call: Awaitable[object]) -> object:
    """Await a call for at most CALL_SECONDS. Raise BrokerUnavailable if the connection is lost meanwhile."""
    task = asyncio.current_task()
    assert task is not None, "only a task awaits"
    before = task.cancelling()
    try:
        return await _translate_errors(call)
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError  # aio-pika may swallow it, and its caller would never end


async def _translate_errors(call: Awaitable[object]) -> object:
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return await call
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise BrokerUnavailable from None  # aio-pika cancels its callers when a heartbeat is missing
    except CONNECTION_ERRORS as error:
        raise BrokerUnavailable(f"broker: {type(error).__name__}: {error}") from error
    except Exception as error:
        if type(error) is not Exception:  # aiormq raises a plain one when we close the connection during a call
            raise
        raise BrokerUnavailable("broker: the connection was closed") from error


class BrokerConnection:
    """One connection that is opened again whenever it is lost."""

    def __init__(
        self,
        url: str,
        name: str,
        set_up: Callable[[AbstractConnection], Awaitable[None]],
        probe: Callable[[AbstractConnection], Awaitable[None]],
    ) -> None:
        """`set_up` opens channels on each new connection. It calls `mark_lost` when one of them is lost.

        `probe` checks from time to time that the connection still works. If not, it raises BrokerUnavailable or times
        out.
        """
        self._url = url
        self._name = name
        self._set_up = set_up
        self._probe = probe
        self._lost = asyncio.Event()
        self._cause: BaseException | None = None  # of the loss, as aio-pika tells it
        self._outage = ""  # the error that was last logged for an outage that lasts
        self.current: AbstractConnection | None = None

    @property
    def is_up(self) -> bool:
        """Whether the connection is set up and not lost."""
        return self.current is not None and not self._lost.is_set()

    @property
    def is_blocked(self) -> bool:
        """Whether the broker has blocked publishing on this connection."""
        if not self.is_up or self.current is None or self.current.transport is None:
            return False
        ready = self.current.transport.connection.ready()  # waits while blocked; there is no other sign
        try:
            ready.send(None)
        except StopIteration:
            return False
        finally:
            ready.close()
        return True

    async def check(self) -> bool:
        """Return `is_up`, for /readyz."""
        return self.is_up

    def mark_lost(self, *told: object) -> None:
        """Make the loop close this connection and open another one. A callback of aio-pika is told the cause."""
        self._cause = self._cause or next((each for each in told if isinstance(each, BaseException)), None)
        self._lost.set()

    async def run(self) -> None:
        """Connect, and connect again after each loss, until cancelled."""
        while True:
            self._lost.clear()
            self._cause = None
            try:
                connection = await self._connect()
            except CONNECTION_ERRORS as error:
                self._note_unreachable(f"{type(error).__name__}: {error}")
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            try:
                await self._use(connection)
            finally:
                self.current = None
                with contextlib.suppress(BrokerUnavailable):
                    await with_deadline(connection.close())
            await asyncio.sleep(RECONNECT_SECONDS)

    def _note_unreachable(self, error: str) -> None:
        """Log an outage once, and again when its error changes."""
        if error != self._outage:
            self._outage = error
            log.warning("broker.unreachable", connection=self._name, error=error)

    async def _connect(self) -> AbstractConnection:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await connect(self._url, self._name)

    async def _use(self, connection: AbstractConnection) -> None:
        """Set up a new connection. Return when any part of it is lost."""
        connection.close_callbacks.add(self.mark_lost)
        try:
            async with asyncio.timeout(SETUP_SECONDS):
                await self._set_up(connection)
        except CONNECTION_ERRORS as error:
            log.warning("broker.setup_failed", connection=self._name, error=f"{type(error).__name__}: {error}")
            return
        self.current, self._outage = connection, ""
        log.info("broker.connected", connection=self._name)
        await self._watch(connection)
        log.warning("broker.disconnected", connection=self._name, error=self._cause)

    async def _watch(self, connection: AbstractConnection) -> None:
        """Return when the connection is lost, or open but no longer working."""
        while not self._lost.is_set():
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    await self._lost.wait()
            except TimeoutError:
                try:
                    await with_deadline(self._probe(connection))
                except BrokerUnavailable as error:
                    log.warning("broker.unresponsive", connection=self._name, error=error)
                    self.mark_lost()
