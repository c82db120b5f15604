"""Reads the lines of a file in the object store, a page at a time, from any place of the file.

So nothing is open between two pages, and another process can go on where one was killed.
"""

from typing import NamedTuple

from common.object_store.store import ObjectStore

MAX_LINE = 1024 * 1024  # bytes
PAGE = MAX_LINE + 2  # a line of that length, with its end


class Line(NamedTuple):
    """A line that is not blank, without its end. `text` is None if it is too long."""

    number: int  # from 0, of the lines of its page, blank ones too
    end: int  # the place in the file where the next line begins
    text: bytes | None


class Page(NamedTuple):
    """Some lines in a row. `end` is the place where the next page begins, and `rows` how many lines end before it."""

    lines: list[Line]
    end: int
    rows: int


class LineSource:
    """The lines of files."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    async def read(self, key: str, size: int, start: int) -> Page:
        """Return the lines from a place in a file of `size` bytes, as many as fit into a page, but at least one.

        Raises StoreNotFound or StoreRangeInvalid if the file is no longer what it was, and Unavailable.
        """
        if start >= size:
            return Page([], size, 0)
        stop = min(start + PAGE, size)
        reader = await self._objects.read(key, start, stop)
        data = b"".join([piece async for piece in reader.pieces])
        page = split_page(data, start, is_last=stop == size)
        if page.rows:
            return page
        end = await self._find_end(key, size, stop)
        return Page([Line(0, end, None)], end, 1)

    async def _find_end(self, key: str, size: int, start: int) -> int:
        """Return the place after the next end of a line."""
        reader = await self._objects.read(key, start, size)
        async for piece in reader.pieces:
            if (at := piece.find(b"\n")) >= 0:
                return start + at + 1
            start += len(piece)
        return size


def split_page(data: bytes, start: int, *, is_last: bool) -> Page:
    """Return the whole lines of bytes that begin at a place. The last bytes of a file end a line. Pure."""
    *whole, rest = data.split(b"\n")
    if is_last and rest:
        whole.append(rest)
    lines, end = [], start
    for number, line in enumerate(whole):
        end += len(line) + 1
        if text := line.strip():
            lines.append(Line(number, min(end, start + len(data)), text if len(text) <= MAX_LINE else None))
    return Page(lines, min(end, start + len(data)), len(whole))
