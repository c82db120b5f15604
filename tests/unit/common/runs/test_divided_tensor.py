"""The elements of a tensor in parts are taken a few at a time, from rows and from files."""

import asyncio
import struct
from collections.abc import Sequence
from typing import cast
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import ids
from common.jobs.run import Run
from common.pipelines.elements import InvalidElements, gather, split
from common.pipelines.run_state import Place
from common.runs import divided_tensor
from common.runs.divided_tensor import DividedTensor, Parts
from common.runs.tensor_files import CannotGoOn, TensorFiles
from common.tensors import Datatype, FileContent, Tensor

RUN = cast(Run, None)  # the files below are of no tenant


class Files(TensorFiles):
    """Files in memory."""

    def __init__(self) -> None:
        self.contents: dict[UUID, bytes] = {}
        self.most = 0  # bytes that were read at a time

    def put(self, tensor: Tensor) -> Tensor:
        assert isinstance(tensor.data, bytes)
        file = ids.new()
        self.contents[file] = tensor.data
        inline = tensor.datatype is Datatype.BYTES
        return msgspec.structs.replace(tensor, data=FileContent(file, 0, len(tensor.data), inline=inline))

    async def read(self, run: Run, tensor: Tensor, start: int, end: int) -> bytes:
        assert isinstance(tensor.data, FileContent)
        found = self.contents[tensor.data.file_id][start:end]
        self.most = max(self.most, len(found))
        return found


def divide(parts: Sequence[Tensor], files: TensorFiles) -> DividedTensor:
    async def read(part: int) -> Tensor:
        return parts[part]

    return DividedTensor(RUN, Parts(len(parts), read), files)


def make_texts(*values: bytes) -> Tensor:
    data = b"".join(struct.pack("<I", len(value)) + value for value in values)
    return Tensor("x", Datatype.BYTES, [len(values)], data)


def make_pairs(values: Sequence[int]) -> Tensor:
    return Tensor("x", Datatype.UINT8, [len(values), 2], bytes(each for value in values for each in (value, value)))


TEXTS = st.lists(st.binary(max_size=9), max_size=4).map(lambda values: make_texts(*values))
PAIRS = st.lists(st.integers(0, 255), max_size=4).map(make_pairs)
PARTS = st.lists(TEXTS, min_size=1, max_size=5) | st.lists(PAIRS, min_size=1, max_size=5)


@given(parts=PARTS, in_files=st.sets(st.integers(0, 4)), count=st.integers(1, 5), limit=st.integers(1, 30))
def test_bites_have_all_elements_in_order(parts: list[Tensor], in_files: set[int], count: int, limit: int) -> None:
    files = Files()
    divided = divide([files.put(part) if number in in_files else part for number, part in enumerate(parts)], files)
    joined = gather(parts)
    total = joined.shape[0]

    async def take_all() -> list[Tensor]:
        found: list[Tensor] = []
        place = Place()
        while left := total - len(found):
            more, place = await divided.take(place, min(count, left), limit)
            found += more
            assert place.element == len(found)
            assert await divided.find(len(found), limit) == place
        return found

    assert asyncio.run(divided.count()) == total
    found = asyncio.run(take_all())
    whole = [
        msgspec.structs.replace(each, data=files.contents[each.data.file_id])
        if isinstance(each.data, FileContent)
        else each
        for each in found
    ]
    assert whole == split(joined, 0, total, 1_000_000)[0]


def test_a_large_file_is_read_in_pieces() -> None:
    files = Files()
    part = files.put(make_texts(*[b"a" * 100] * 50))
    found, place = asyncio.run(divide([part], files).take(Place(), 50, 1000))
    assert (len(found), place, files.most) == (10, Place(10, 0, 10, 10 * 104), 1000)


def test_a_bite_reads_only_its_own_parts() -> None:
    """So an element costs the same at the end of a run as at its beginning."""
    reads: list[int] = []

    async def read(part: int) -> Tensor:
        reads.append(part)
        return make_pairs([part % 256])

    async def take_all() -> None:
        place = Place()
        for _ in range(100):
            _, place = await DividedTensor(RUN, Parts(1000, read), Files()).take(place, 10, 1000)

    asyncio.run(take_all())
    assert reads == [*range(1000)]


def test_the_only_element_of_a_file_stays_there() -> None:
    files = Files()
    part = files.put(make_texts(b"a" * 100))
    assert asyncio.run(divide([part], files).take(Place(), 1, 10)) == ([part], Place(1, 1))
    assert not files.most


def test_a_file_that_ends_too_early_is_refused() -> None:
    files = Files()
    part = msgspec.structs.replace(files.put(make_texts(b"a", b"b")), shape=[3])
    with pytest.raises(InvalidElements, match="the data end"):
        asyncio.run(divide([part], files).take(Place(2, 0, 2, 10), 1, 100))


@pytest.mark.parametrize(
    "part", [make_texts(b"a" * 100, b"b"), Tensor("x", Datatype.UINT8, [2, 100], bytes(200))], ids=["text", "numbers"]
)
def test_an_element_that_needs_too_much_memory_is_refused(part: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided_tensor, "MAX_ELEMENT", 99)
    files = Files()
    with pytest.raises(CannotGoOn, match="an element of 'x' has over 99 bytes"):
        asyncio.run(divide([files.put(part)], files).take(Place(), 1, 10))
