"""Range requests (RFC 9110, 14). Pure. Several ranges in one request are answered with the whole file."""

import re
from typing import NamedTuple

RANGE = re.compile(r"bytes\s*=\s*(\d{0,100})\s*-\s*(\d{0,100})\s*", re.IGNORECASE)


class ByteRange(NamedTuple):
    """Bytes from `start` up to, but without, `end`."""

    start: int
    end: int


class Unsatisfiable(Exception):
    """The file ends before the range."""


def read_range(header: str | None, size: int, etag: str, if_range: str | None) -> ByteRange | None:
    """Return the range of a file with `size` bytes that a request asks for; None for the whole file.

    Raise Unsatisfiable. A header that is no single range of bytes is ignored, as the RFC lets a server do.
    """
    found = RANGE.fullmatch(header or "")
    if found is None or (if_range is not None and if_range.strip() != etag):
        return None
    first, last = found.groups()
    if not first and not last:
        return None
    if not first:  # the last bytes
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= min(size, end):
        raise Unsatisfiable
    return ByteRange(start, end)
