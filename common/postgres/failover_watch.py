"""Frees statements that hang on a primary that is gone, as soon as another server has become the primary."""

import asyncio
import contextlib
from collections.abc import Iterator

from common.postgres.hosts import Hosts

SLOW_SECONDS = 1.0  # after which a statement may hang
LOOK_SECONDS = 1.0  # between two looks
ANSWER_SECONDS = 2.0  # for the other hosts to answer


class FailoverWatch:
    """Looks at the other hosts while a statement is slow.

    A primary that is only slow is not asked: it keeps its connections while no other host is read-write. Nothing runs
    while all statements are fast.
    """

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._slow: set[object] = set()
        self._looking: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Watch a block that ends within seconds."""
        block = object()
        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._note_slow, block)
        try:
            yield
        finally:
            timer.cancel()
            self._slow.discard(block)

    def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()

    def _note_slow(self, block: object) -> None:
        self._slow.add(block)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while self._slow:
            await self._hosts.look_elsewhere(ANSWER_SECONDS)
            await asyncio.sleep(LOOK_SECONDS)
