"""Elements of tensors: taken one by one or in windows, and joined again."""

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import ids
from common.pipelines.elements import (
    START,
    InvalidElements,
    count_elements,
    gather,
    gather_nothing,
    take_element,
    take_window,
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


@given(make_tensors(), st.integers(1, 4))
def test_what_is_taken_apart_is_joined_to_the_same(tensor: Tensor, window: int) -> None:
    elements, cursor = take_window(tensor, START, window)
    while cursor.element < count_elements(tensor.shape):
        more, cursor = take_window(tensor, cursor, window)
        elements += more
    assert elements == [take_element(tensor, index) for index in range(tensor.shape[0])]
    assert all(each.shape == [1, *tensor.shape[1:]] for each in elements)
    assert take_window(tensor, cursor, window) == ([], cursor)
    if elements:
        assert gather(elements) == tensor


def test_an_element_of_several_texts_has_them_all() -> None:
    tensor = Tensor("w", Datatype.BYTES, [2, 2], pack_bytes(b"a", b"", b"bc", b"def"))
    assert take_element(tensor, 1) == Tensor("w", Datatype.BYTES, [1, 2], pack_bytes(b"bc", b"def"))


@pytest.mark.parametrize("index", [-1, 2])
def test_there_is_no_element_beyond_the_first_axis(index: int) -> None:
    with pytest.raises(IndexError, match=f"no element {index} in shape"):
        take_element(Tensor("x", Datatype.UINT8, [2], b"ab"), index)


@pytest.mark.parametrize(
    ("datatype", "data"),
    [
        (Datatype.FP32, bytes(7)),
        (Datatype.BYTES, pack_bytes(b"a")),
        (Datatype.BYTES, pack_bytes(b"a") + b"\x00\x00"),
        (Datatype.BYTES, pack_bytes(b"a", b"b")[:-1]),
    ],
)
def test_data_that_are_too_short_are_refused(datatype: Datatype, data: bytes) -> None:
    with pytest.raises(InvalidElements, match=f"the data end after {len(data)} bytes"):
        take_window(Tensor("x", datatype, [2], data), START, 2)


def test_data_in_a_file_are_refused() -> None:
    tensor = Tensor("x", Datatype.BYTES, [1], FileContent(ids.new(), 0, 5))
    with pytest.raises(InvalidElements, match="only data in a job"):
        take_element(tensor, 0)
    with pytest.raises(InvalidElements, match="only data in a job"):
        gather([tensor])


def test_a_scalar_has_no_elements() -> None:
    scalar = Tensor("x", Datatype.UINT8, [], b"a")
    with pytest.raises(InvalidElements, match=r"shape \[\] has no axis"):
        take_element(scalar, 0)
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
