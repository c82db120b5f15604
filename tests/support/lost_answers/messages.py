"""Messages of PostgreSQL's protocol, as far as the proxy reads them."""

import asyncio
import struct
from typing import NamedTuple

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102


class Message(NamedTuple):
    """A message with its kind, such as b"Q", and its body."""

    kind: bytes
    body: bytes

    def encode(self) -> bytes:
        return self.kind + struct.pack("!i", len(self.body) + 4) + self.body


async def read_message(reader: asyncio.StreamReader) -> Message:
    kind, size = struct.unpack("!ci", await reader.readexactly(5))
    return Message(kind, await reader.readexactly(size - 4))


async def read_start(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the code of a message at the start of a connection, and the whole message, which has no kind."""
    head = await reader.readexactly(8)
    size, code = struct.unpack("!ii", head)
    return code, head + await reader.readexactly(size - 8)


def split_strings(body: bytes, count: int) -> list[str]:
    """Return the first strings of a body."""
    return [each.decode(errors="replace") for each in body.split(b"\0", count)[:count]]


def count_rows(tag: str) -> int:
    """Return the rows of a command's tag, such as `INSERT 0 3`. A tag without a number has none."""
    last = tag.rpartition(" ")[2]
    return int(last) if last.isdigit() else 0
