"""Elements of tensors: taken one by one or in windows, and joined again."""

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import ids
from common.pipelines.elements import (
    InvalidElements,
    count_elements,
    gather,
    gather_nothing,
    read_data,
    split,
)
from common.tensors import SIZES, Datatype, FileContent, Signature, Tensor


def pack_bytes(*values: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


@st.composite
def make_tensors(draw: Any) -> Tensor:
    datatype = draw(st.sampled_from(Datatype))
    shape = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    count = math.prod(shape)
    if datatype is Datatype.BYTES:
        data = pack_bytes(*draw(st.lists(st.binary(max_size=5), min_size=count, max_size=count)))
    else:
        size = count * SIZES[datatype]
        data = draw(st.binary(min_size=size, max_size=size))
    return Tensor("x", datatype, shape, data)


def split_all(tensor: Tensor) -> list[Tensor]:
    return split(tensor, 0, count_elements(tensor.shape), 1_000_000)[0]


@given(make_tensors(), st.integers(1, 4), st.integers(1, 20))
def test_what_is_taken_apart_is_joined_to_the_same(tensor: Tensor, window: int, limit: int) -> None:
    elements: list[Tensor] = []
    offset = 0
    while left := count_elements(tensor.shape) - len(elements):
        more, offset = split(tensor, offset, min(left, window), limit)
        assert more
        assert sum(len(read_data(each)) for each in more[:-1]) < limit
        elements += more
    assert elements == split_all(tensor)
    assert all(each.shape == [1, *tensor.shape[1:]] for each in elements)
    if elements:
        assert gather(elements) == tensor


def test_an_element_of_several_texts_has_them_all() -> None:
    tensor = Tensor("w", Datatype.BYTES, [2, 2], pack_bytes(b"a", b"", b"bc", b"def"))
    assert split_all(tensor)[1] == Tensor("w", Datatype.BYTES, [1, 2], pack_bytes(b"bc", b"def"))


def test_an_element_that_is_not_whole_is_left_out() -> None:
    tensor = Tensor("x", Datatype.BYTES, [3], pack_bytes(b"a", b"bc", b"def")[:-1])
    assert [each.data for each in split_all(tensor)] == [pack_bytes(b"a"), pack_bytes(b"bc")]


@pytest.mark.parametrize(
    ("datatype", "data"),
    [
        (Datatype.FP32, bytes(3)),
        (Datatype.BYTES, b""),
        (Datatype.BYTES, b"\x00\x00"),
        (Datatype.BYTES, pack_bytes(b"b")[:-1]),
    ],
)
def test_data_that_are_too_short_are_refused(datatype: Datatype, data: bytes) -> None:
    with pytest.raises(InvalidElements, match=f"the data end after {len(data)} bytes"):
        split_all(Tensor("x", datatype, [2], data))


def test_data_in_a_file_are_refused() -> None:
    tensor = Tensor("x", Datatype.BYTES, [1], FileContent(ids.new(), 0, 5))
    with pytest.raises(InvalidElements, match="must be read first"):
        split_all(tensor)
    with pytest.raises(InvalidElements, match="must be read first"):
        gather([tensor])


def test_a_scalar_has_no_elements() -> None:
    scalar = Tensor("x", Datatype.UINT8, [], b"a")
    with pytest.raises(InvalidElements, match=r"shape \[\] has no axis"):
        split_all(scalar)
    with pytest.raises(InvalidElements, match=r"shape \[\] has no axis"):
        gather([scalar])


def test_joined_tensors_may_differ_in_the_first_axis_only() -> None:
    row = Tensor("x", Datatype.UINT8, [1, 2], b"ab")
    rows = Tensor("x", Datatype.UINT8, [2, 2], b"cdef")
    assert gather([row, rows]) == Tensor("x", Datatype.UINT8, [3, 2], b"abcdef")
    for other in (Tensor("x", Datatype.UINT8, [1, 3], b"abc"), Tensor("x", Datatype.INT8, [1, 2], b"ab")):
        with pytest.raises(InvalidElements) as caught:
            gather([row, other])
        assert f"UINT8 [1, 2] and {other.datatype} {other.shape}" in str(caught.value)


def test_of_no_elements_dimensions_of_any_size_are_empty() -> None:
    output = Signature("x", Datatype.FP32, [-1, 3, -1])
    assert gather_nothing(output) == Tensor("x", Datatype.FP32, [0, 3, 0], b"")
