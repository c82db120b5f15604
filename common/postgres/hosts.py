"""The hosts of a URL: connects to the one that is read-write, and knows which one that is."""

import asyncio
import weakref
from collections.abc import Sequence
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import asyncpg

from common.postgres.session_settings import basic_settings
from common.server_urls import split_by_node
from common.telemetry.logs import Log

STAGGER_SECONDS = 0.5  # before the next host is tried too: the last primary may have changed or be slow
CLOSE_SECONDS = 1.0
# What asyncpg raises for a wrong URL. While a service runs, an operator may cause them, so then they count as an
# outage.
ACCESS_ERRORS = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ClientConfigurationError,
)
CONNECT_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
LOOKING = {"server_settings": basic_settings("charonia-failover")}
_ATTRIBUTES = "target_session_attrs"
_OF_ONE_SERVER = ("read-write", "primary")  # values that only one of the hosts fulfils
Session: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

log = Log("database")


class Hosts:
    """The host of the last connection is tried first."""

    def __init__(self, url: str) -> None:
        self._urls, can_fail_over = prepare_urls(url)
        self.can_fail_over = can_fail_over
        """Whether another host may become the only one that is read-write."""
        self._order = list(self._urls)
        self._nodes: weakref.WeakKeyDictionary[Session, str] = weakref.WeakKeyDictionary()  # of open connections
        self.current: str | None = None
        """The host of the last connection: `host:port`."""

    async def connect(self, *_dsn: str | None, **options: Any) -> Session:
        """Connect to the host that is read-write, with asyncpg's options. Raise CONNECT_ERRORS."""
        return await self._connect_first(self._order, options, STAGGER_SECONDS)

    async def look_elsewhere(self, seconds: float) -> None:
        """End all connections to the current host if another host is read-write now."""
        others = [name for name in self._order if name != self.current]
        try:
            async with asyncio.timeout(seconds):
                found = await self._connect_first(others, LOOKING, 0)
                await found.close(timeout=CLOSE_SECONDS)
        except CONNECT_ERRORS:
            return

    async def _connect_first(self, names: Sequence[str], options: dict[str, Any], stagger: float) -> Session:
        """Try the hosts, each a little after the one before, or as soon as that has failed."""
        waiting, errors = list(names), []
        running: dict[asyncio.Task[Session], str] = {}
        try:
            while waiting or running:
                if waiting:
                    name = waiting.pop(0)
                    running[asyncio.create_task(asyncpg.connect(self._urls[name], **options))] = name
                done, _ = await asyncio.wait(
                    running, timeout=stagger if waiting else None, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    if (error := task.exception()) is None:
                        return self._settle(running.pop(task), task.result())
                    errors.append(error)
                    del running[task]
            raise choose_error(errors)
        finally:
            for task in running:
                task.cancel()
                task.add_done_callback(_discard)

    def _settle(self, name: str, session: Session) -> Session:
        """Note where a new connection leads. A host that has taken over ends those to the others."""
        previous, self.current = self.current, name
        self._nodes[session] = name
        self._order.sort(key=lambda each: each != name)
        if self.can_fail_over and previous not in (None, name):
            log.warning("database.failed_over", node=name, previous=previous)
            for old in [each for each, node in self._nodes.items() if node != name]:
                old.terminate()
        return session


def prepare_urls(url: str) -> tuple[dict[str, str], bool]:
    """Return a URL for each host, read-write if there are several, and whether only one of them can fulfil it."""
    urls = split_by_node(url)
    if len(urls) == 1:
        return urls, False
    query = urlsplit(url).query
    if wanted := parse_qs(query).get(_ATTRIBUTES):
        return urls, wanted[-1] in _OF_ONE_SERVER
    mark = "&" if query else "?"
    return {name: f"{each}{mark}{_ATTRIBUTES}=read-write" for name, each in urls.items()}, True


def choose_error(errors: Sequence[BaseException]) -> BaseException:
    """Return the error to raise when no host can be used. A denied access counts if all hosts deny it."""
    return next((error for error in errors if not isinstance(error, ACCESS_ERRORS)), errors[0])


def _discard(task: asyncio.Task[Session]) -> None:
    """Close a connection that came too late."""
    if not task.cancelled() and task.exception() is None:
        task.result().terminate()
