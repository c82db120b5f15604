"""The feed of all events of the tenant, for programs that no webhook can reach."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

import msgspec

from charonia._async.blocking import sleep
from charonia._async.transport import AsyncTransport, read_events
from charonia.calls import NEVER, Deadline, add_headers, get, resume_after
from charonia.errors import APIError, ConnectionFailed, DeadlineExceeded
from charonia.events import Event, parse_fed
from charonia.retry import choose_delay
from charonia.sse import Parser, ServerSentEvent

LATEST, OLDEST = "latest", "oldest"
_AWAY = (429, 502, 503, 504)  # the gateway, or a proxy before it, has no room or is down


def ignore() -> None:
    """Do nothing."""


class FeedPage(msgspec.Struct, frozen=True):
    """A page of the feed. The ids are in the items."""

    items: list[msgspec.Raw]
    next_after: str | None
    has_more: bool


class _Id(msgspec.Struct, frozen=True):
    id: str


class AsyncEvents:
    """All events of the tenant, in order, each at least once. They are kept as long as their jobs."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(
        self, *, types: str | Sequence[str] | None = None, after: str | None = None
    ) -> AsyncGenerator[Event, None]:
        """Yield the events until now, oldest first. `types` are names or patterns such as `job.*`.

        `after` is the id or the `position` of an event, or "oldest", which is the default. Raise NotFound if it is no
        longer kept.
        """
        after = None if after == OLDEST else after
        while True:
            page = await self._transport.call(get("/v1/events", {**make_query(types), "after": after}), FeedPage)
            for item in page.items:
                yield parse_fed(msgspec.json.decode(item, type=_Id).id, item)
            after = page.next_after
            if not page.has_more:
                return

    async def find_end(self, *, types: str | Sequence[str] | None = None) -> str:
        """Return the position of the last event until now, for `after`: "oldest" if there are no events."""
        page = await self._transport.call(get("/v1/events", {**make_query(types), "after": LATEST}), FeedPage)
        return page.next_after or OLDEST

    async def follow(
        self,
        *,
        types: str | Sequence[str] | None = None,
        after: str | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Yield the events that follow, as they come, without an end: only new ones unless `after` says otherwise.

        `after` is the id or the `position` of an event, or "oldest" to begin with the oldest one that is kept. A broken
        connection is opened again, however long the gateway is away, and no event is lost. Raise DeadlineExceeded
        after `timeout` seconds, by default never, and APIError, such as Unauthorized once the key is revoked.
        """
        async for message in self._read_messages(types, after, timeout):
            if message is not None:
                yield parse_fed(message.id, message.data)

    async def _read_messages(
        self,
        types: str | Sequence[str] | None,
        after: str | None,
        timeout: float | None,
        on_break: Callable[[], None] = ignore,
    ) -> AsyncGenerator[ServerSentEvent | None, None]:
        """Yield the events as they came, and None as a keep-alive. Call `on_break` before each reconnect."""
        deadline = Deadline(NEVER if timeout is None else timeout)
        if after is None:  # a position that a broken connection does not change
            after = await self.find_end(types=types)
        last_id, failures, has_connected = "" if after == OLDEST else after, 0, False
        call = get("/v1/events", make_query(types))
        while True:
            parser = Parser()
            try:
                async with self._transport.open(add_headers(call, resume_after(last_id)), deadline) as response:
                    has_connected = True
                    async for message in read_events(response, parser):
                        if message is not None:
                            last_id, failures = message.id, 0
                        yield message
                        deadline.check("the events")
            except (ConnectionFailed, DeadlineExceeded, APIError) as error:
                is_refused = isinstance(error, APIError) and error.status not in _AWAY
                if is_refused or not has_connected:  # the URL may be wrong
                    raise
            deadline.check("the events")
            on_break()
            failures += 1
            await sleep(min(choose_delay(failures, parser.retry), deadline.left))


def make_query(types: str | Sequence[str] | None) -> Mapping[str, str | None]:
    """Return the filter as the API takes it."""
    return {"types": types if types is None or isinstance(types, str) else ",".join(types)}
