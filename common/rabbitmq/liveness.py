"""Notices within seconds that a node of a cluster is frozen or cut off."""

import asyncio

from aio_pika.abc import AbstractChannel, AbstractConnection

PING_SECONDS = 1.0  # between two calls
STEP_SECONDS = 1.0  # of waiting for an answer; a stall of this process counts as one step
FIRST_STEPS = 3
MOST_STEPS = 24
CALM_PINGS = 60  # answers in a row, after which the patience is the first again


class Patience:
    """How many steps a node has for an answer.

    Each node that is given up doubles it. So a cluster that is only slow is not burdened with ever more connections.
    """

    def __init__(self) -> None:
        self.steps = FIRST_STEPS
        self._answers = 0  # in a row

    def note_silence(self) -> None:
        """Note that a node was given up."""
        self.steps, self._answers = min(2 * self.steps, MOST_STEPS), 0

    def note_answer(self) -> None:
        """Note an answer in time."""
        self._answers += 1
        if self._answers >= CALM_PINGS:
            self.steps = FIRST_STEPS


class Liveness:
    """Calls a node every second. The call reaches no queue and no database."""

    def __init__(self) -> None:
        self._patience = Patience()

    async def watch(self, connection: AbstractConnection) -> None:
        """Return when the node has not answered for too long. Raise what aio-pika raises for a lost connection."""
        channel = await connection.channel(publisher_confirms=False)
        while True:
            await asyncio.sleep(PING_SECONDS)
            if is_blocked(connection):
                continue
            if not await self._ping(connection, channel):
                self._patience.note_silence()
                return
            self._patience.note_answer()

    async def _ping(self, connection: AbstractConnection, channel: AbstractChannel) -> bool:
        """Return whether the node answers. Wait for a node that has blocked the connection."""
        call = asyncio.create_task(_call(channel))
        call.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # it may fail unnoticed
        waited = 0
        try:
            while waited < self._patience.steps:
                await asyncio.wait([call], timeout=STEP_SECONDS)
                if call.done():
                    call.result()
                    return True
                waited = 0 if is_blocked(connection) else waited + 1
        finally:
            call.cancel()
        return False


async def _call(channel: AbstractChannel) -> None:
    await channel.set_qos(prefetch_count=0)


def is_blocked(connection: AbstractConnection) -> bool:
    """Return whether the broker has blocked publishing on a connection. It then reads nothing from it."""
    if connection.transport is None:
        return False
    ready = connection.transport.connection.ready()  # waits while blocked; there is no other sign
    try:
        ready.send(None)
    except StopIteration:
        return False
    finally:
        ready.close()
    return True
