"""Streams for tests of the object store."""

import hashlib
from collections.abc import AsyncIterator

from common.object_store.store import ObjectStore


def make_bytes(size: int) -> bytes:
    """Return bytes in which each piece differs."""
    block = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(1024))
    return (block * (size // len(block) + 1))[:size]


async def stream(content: bytes, part: int = 100_000) -> AsyncIterator[bytes]:
    for first in range(0, len(content), part):
        yield content[first : first + part]


async def read_all(store: ObjectStore, key: str, start: int = 0, end: int | None = None) -> bytes:
    reader = await store.read(key, start, end)
    return b"".join([piece async for piece in reader.pieces])


async def list_keys(store: ObjectStore) -> list[str]:
    return sorted([found.key async for page in store.list_pages() for found in page])
