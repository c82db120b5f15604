"""Reads objects as streams. Memory stays at some pieces, whatever the size of the object."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import obstore
from msgspec import Struct
from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from common.errors import StoreRangeInvalid

Step = Callable[[], AbstractAsyncContextManager[None]]


class ObjectReader(Struct, frozen=True):
    """An object that is open for reading."""

    size: int
    """The bytes of the whole object, whatever range is read."""
    pieces: AsyncIterator[bytes]
    """The bytes that were asked for, once."""


async def open_local_object(
    store: LocalStore, key: str, start: int, end: int | None, piece: int, step: Step
) -> ObjectReader:
    """Open a file. It is read range by range, which takes a tenth of the time of obstore's stream of a file."""
    async with step():
        size = (await obstore.head_async(store, key))["size"]
    stop = size if end is None else min(end, size)
    if start >= size and (start, end) != (0, None):
        raise StoreRangeInvalid(f"{key} has {size} bytes, so none from {start} on.")
    return ObjectReader(size, _read_ranges(store, key, start, stop, piece, step))


async def open_cloud_object(
    store: S3Store | GCSStore | AzureStore, key: str, start: int, end: int | None, piece: int, step: Step
) -> ObjectReader:
    """Open an object with one request. obstore requests the rest again if the connection breaks."""
    options: obstore.GetOptions = {}
    if end is not None:
        options = {"range": (start, end)}
    elif start:
        options = {"range": {"offset": start}}
    async with step():
        found = await obstore.get_async(store, key, options=options)
    return ObjectReader(found.meta["size"], _read_stream(found.stream(piece), step))


async def _read_ranges(
    store: LocalStore, key: str, start: int, stop: int, piece: int, step: Step
) -> AsyncIterator[bytes]:
    for first in range(start, stop, piece):
        async with step():
            found = await obstore.get_range_async(store, key, start=first, end=min(first + piece, stop))
        yield found.to_bytes()


async def _read_stream(stream: "obstore.BytesStream", step: Step) -> AsyncIterator[bytes]:
    while True:
        async with step():
            piece = await anext(stream, None)
        if piece is None:
            return
        yield piece
