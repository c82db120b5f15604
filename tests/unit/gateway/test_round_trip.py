"""What a client sends is what it gets back: the gateway's packing and the dispatcher's rendering are inverse."""

import base64
import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common import tensors
from common.tensors import CODES, FLOATS, Datatype, Signature
from services.gateway.jobs.inputs.validation import read_inputs
from tests.support.api.outputs import read_output

EXAMPLES = 40  # of each datatype


def specials(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[float | str]:
    return numbers | st.sampled_from(["NaN", "Infinity", "-Infinity"])


def whole(datatype: Datatype) -> st.SearchStrategy[int]:
    bits = 8 * struct.calcsize("<" + CODES[datatype])
    if CODES[datatype].isupper():
        return st.integers(0, 2**bits - 1)
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def widen(half: int) -> float:
    value: float = struct.unpack("<f", struct.pack("<I", half << 16))[0]
    return value


def finite(width: int) -> st.SearchStrategy[float]:
    return st.floats(width=width, allow_nan=False, allow_infinity=False)  # type: ignore[arg-type]


# As a client writes them; each exactly representable, so that equality is what is asked for.
VALUES: dict[Datatype, st.SearchStrategy[Any]] = {
    Datatype.BOOL: st.booleans(),
    Datatype.FP16: specials(finite(16)),
    Datatype.BF16: specials(st.integers(0, 0xFFFF).map(widen).filter(math.isfinite)),
    Datatype.FP32: specials(finite(32)),
    Datatype.FP64: specials(finite(64)),
    Datatype.BYTES: st.text()
    | st.binary()
    .filter(lambda value: not is_text(value))
    .map(lambda value: {"base64": base64.b64encode(value).decode()}),
} | {datatype: whole(datatype) for datatype in CODES if datatype is not Datatype.BOOL and datatype not in FLOATS}


def is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("datatype", list(Datatype))
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_every_datatype_comes_back_as_it_was_sent(datatype: Datatype, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[datatype], min_size=1, max_size=20))
    (tensor,) = send(values, datatype)
    output = read_output(tensor)
    assert output.shape == [len(values)]
    assert output.data == values
    assert [type(value) for value in output.data] == [type(value) for value in values]


@pytest.mark.parametrize("datatype", [datatype for datatype in Datatype if datatype is not Datatype.BYTES])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_raw_bytes_are_passed_on_untouched(datatype: Datatype, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    size = tensors.SIZES[datatype]
    raw = data.draw(st.binary(min_size=count * size, max_size=count * size))
    (tensor,) = send({"base64": base64.b64encode(raw).decode()}, datatype)
    assert (tensor.shape, tensor.data) == ([count], raw)


@given(rows=st.integers(1, 4), columns=st.integers(1, 4), depth=st.integers(1, 3))
def test_nested_lists_come_back_row_major_with_their_shape(rows: int, columns: int, depth: int) -> None:
    values = [[[row, column, layer] for column in range(columns)] for row in range(rows) for layer in range(depth)]
    signature = Signature("x", Datatype.INT16, [-1, -1, -1])
    found, errors = read_inputs({"x": values}, [signature], 0)
    assert errors == []
    output = read_output(found[0])
    assert output.shape == [rows * depth, columns, 3]
    assert output.data == [number for item in values for cell in item for number in cell]


def send(values: Any, datatype: Datatype) -> list[tensors.Tensor]:
    """Packed by the gateway, and unpacked again as the dispatcher does."""
    found, errors = read_inputs({"x": values}, [Signature("x", datatype, [-1])], 0)
    assert errors == []
    return tensors.unpack(tensors.pack(found))
