"""Regroups a stream, because each call of the store has a cost of its own."""

from collections.abc import AsyncGenerator, AsyncIterable


async def regroup(parts: AsyncIterable[bytes], size: int) -> AsyncGenerator[bytes, None]:
    """Yield the same bytes in pieces of `size` up to twice as much; the last may be shorter."""
    held: list[bytes] = []
    length = 0
    async for part in parts:
        for first in range(0, len(part), size):
            held.append(part[first : first + size])
            length += len(held[-1])
            if length >= size:
                yield b"".join(held)
                held.clear()
                length = 0
    if held:
        yield b"".join(held)
