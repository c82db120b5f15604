"""One connection to RabbitMQ, kept open by one loop.

When the connection, a channel or a consumer is lost, the loop opens all of them again, on another node if there is one.
docs/decisions/0003-plain-connections.md says why these are not aio-pika's robust connections.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import aio_pika
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError

from common.errors import BrokerUnavailable
from common.rabbitmq.liveness import Liveness, is_blocked
from common.rabbitmq.nodes import Nodes
from common.telemetry.logs import Log

CONNECT_SECONDS = 10.0
QUICK_CONNECT_SECONDS = 2.0  # while there is a node that has not failed
SETUP_SECONDS = 30.0  # a dispatcher consumes three queues for each model
CALL_SECONDS = 5.0
QUICK_CLOSE_SECONDS = 0.5  # for a node that does not answer
RECONNECT_SECONDS = 0.5
HEARTBEAT_SECONDS = 10
PROBE_SECONDS = 10.0  # between two probes
CONNECTION_ERRORS = (AMQPError, ChannelInvalidStateError, OSError, TimeoutError, RuntimeError)

log = Log("broker")


class _Connection(aio_pika.Connection):
    def __del__(self) -> None:
        """Do nothing. The base class calls `close` here, and without a running loop nobody awaits it."""


async def connect(url: str, name: str) -> AbstractConnection:
    """Connect to the first node that answers. The caller closes the connection.

    Each node has CALL_SECONDS at most. `name` is the connection's name in the management UI.
    """
    nodes = Nodes(url)
    while nodes.has_untried:
        try:
            return await connect_to(nodes, name)
        except CONNECTION_ERRORS:
            nodes.fail()
    return await connect_to(nodes, name)


async def connect_to(nodes: Nodes, name: str) -> AbstractConnection:
    """Connect to the first of these nodes. The caller closes the connection."""
    return await aio_pika.connect(
        nodes.url,
        timeout=min(QUICK_CONNECT_SECONDS, CALL_SECONDS) if nodes.has_untried else CALL_SECONDS,
        heartbeat=HEARTBEAT_SECONDS,
        client_properties={"connection_name": name},
        connection_class=_Connection,
    )


async def with_deadline(call: Awaitable[object], seconds: float | None = None) -> object:
    """Await a call for CALL_SECONDS, or as long. Raise BrokerUnavailable if the connection is lost meanwhile."""
    task = asyncio.current_task()
    assert task is not None, "only a task awaits"
    before = task.cancelling()
    try:
        return await _translate_errors(call, CALL_SECONDS if seconds is None else seconds)
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError  # aio-pika may swallow it, and its caller would never end


async def _translate_errors(call: Awaitable[object], seconds: float) -> object:
    try:
        async with asyncio.timeout(seconds):
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
        self._nodes = Nodes(url)
        self._liveness = Liveness()
        self._name = name
        self._set_up = set_up
        self._probe = probe
        self._lost = asyncio.Event()
        self._cause: BaseException | None = None  # of the loss, as aio-pika tells it
        self._responsive = True
        self._setting_up: asyncio.Timeout | None = None
        self._outage: dict[str, str] = {}  # the error of each node that was last logged for an outage that lasts
        self.current: AbstractConnection | None = None

    @property
    def is_up(self) -> bool:
        """Whether the connection is set up and not lost."""
        return self.current is not None and not self._lost.is_set()

    @property
    def is_blocked(self) -> bool:
        """Whether the broker has blocked publishing on this connection."""
        return self.is_up and self.current is not None and is_blocked(self.current)

    @property
    def node(self) -> str | None:
        """The node of the connection: `host:port`. None while there is no connection."""
        return self._nodes.name if self.is_up else None

    async def check(self) -> bool:
        """Return `is_up`, for /readyz."""
        return self.is_up

    def mark_lost(self, *told: object) -> None:
        """Make the loop close this connection and open another one. A callback of aio-pika is told the cause."""
        self._cause = self._cause or next((each for each in told if isinstance(each, BaseException)), None)
        self._lost.set()

    async def run(self) -> None:
        """Connect, and connect again after each loss, until cancelled."""
        task = asyncio.current_task()
        assert task is not None, "only a task awaits"
        before = task.cancelling()
        while True:
            self._lost.clear()
            self._cause = None
            self._responsive = True
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    connection = await connect_to(self._nodes, self._name)
            except CONNECTION_ERRORS as error:
                self._note_unreachable(f"{type(error).__name__}: {error}")
                self._nodes.fail()
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            try:
                if task.cancelling() > before:
                    raise asyncio.CancelledError  # aio-pika swallows it if the connection is open at that moment
                await self._use(connection)
            finally:
                self.current = None
                with contextlib.suppress(BrokerUnavailable):
                    await with_deadline(connection.close(), None if self._responsive else QUICK_CLOSE_SECONDS)
            self._nodes.fail()
            await asyncio.sleep(RECONNECT_SECONDS)

    def _note_unreachable(self, error: str) -> None:
        """Log an outage of a node once, and again when its error changes."""
        node = self._nodes.name
        if error != self._outage.get(node):
            self._outage[node] = error
            log.warning("broker.unreachable", connection=self._name, node=node, error=error)

    async def _use(self, connection: AbstractConnection) -> None:
        """Set up a new connection. Return when any part of it is lost."""
        connection.close_callbacks.add(self.mark_lost)
        watching = asyncio.create_task(self._watch_node(connection)) if self._nodes.has_others else None
        try:
            await self._use_watched(connection)
        finally:
            if watching is not None:
                watching.cancel()

    async def _use_watched(self, connection: AbstractConnection) -> None:
        names = {"connection": self._name, "node": self._nodes.name}
        try:
            async with asyncio.timeout(SETUP_SECONDS) as self._setting_up:
                await self._set_up(connection)
        except CONNECTION_ERRORS as error:
            log.warning("broker.setup_failed", **names, error=f"{type(error).__name__}: {error}")
            return
        finally:
            self._setting_up = None
        self.current = connection
        self._nodes.succeed()
        self._outage.clear()
        log.info("broker.connected", **names)
        await self._watch(connection)
        log.warning("broker.disconnected", **names, error=self._cause)

    async def _watch(self, connection: AbstractConnection) -> None:
        """Return when the connection is lost, or open but no longer working."""
        while not self._lost.is_set():
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    await self._lost.wait()
            except TimeoutError:
                if is_blocked(connection):
                    continue
                try:
                    await with_deadline(self._probe(connection))
                except BrokerUnavailable as error:
                    if not is_blocked(connection):
                        self._give_up(error)

    async def _watch_node(self, connection: AbstractConnection) -> None:
        """Give the connection up when its node does not answer."""
        try:
            await self._liveness.watch(connection)
        except CONNECTION_ERRORS as error:
            self._give_up(error)
        else:
            self._responsive = False
            self._give_up(TimeoutError("the node does not answer"))
            if self._setting_up is not None:
                self._setting_up.reschedule(asyncio.get_running_loop().time())

    def _give_up(self, error: Exception) -> None:
        if not self._lost.is_set():
            log.warning("broker.unresponsive", connection=self._name, node=self._nodes.name, error=error)
            self.mark_lost()
