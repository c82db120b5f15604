"""Regrouping a stream."""

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from common.object_store.pieces import regroup


async def stream(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@given(parts=st.lists(st.binary(max_size=30)), size=st.integers(1, 12))
async def test_pieces_have_the_same_bytes_and_a_bounded_size(parts: list[bytes], size: int) -> None:
    pieces = [piece async for piece in regroup(stream(parts), size)]
    assert b"".join(pieces) == b"".join(parts)
    assert all(size <= len(piece) < 2 * size for piece in pieces[:-1])
    assert all(0 < len(piece) < 2 * size for piece in pieces)
