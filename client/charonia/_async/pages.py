"""Lists: the items of all pages."""

from collections.abc import AsyncGenerator

import msgspec

from charonia._async.transport import AsyncTransport
from charonia.calls import T, get
from charonia.schemas import Page


async def read_pages(transport: AsyncTransport, path: str, kind: type[T]) -> list[T]:
    """Return the items of a list that is short."""
    return [item async for item in list_pages(transport, path, kind)]


async def list_pages(
    transport: AsyncTransport, path: str, kind: type[T], **query: str | int | None
) -> AsyncGenerator[T, None]:
    """Yield the items of a list, page by page."""
    cursor: str | None = None
    while True:
        page = await transport.call(get(path, {**query, "cursor": cursor}), Page[msgspec.Raw])
        for item in page.items:
            yield transport.decode(item, kind)
        cursor = page.next_cursor
        if cursor is None:
            return
