"""A request's inputs against a model's signature: both forms, shapes, batches, and the pointer to each mistake."""

from typing import Any

import pytest

from common.tensors import Datatype, Signature, Tensor
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.inputs.validation import read_inputs

ROW = Signature("x", Datatype.UINT8, [-1, 3])
ITEM = Signature("x", Datatype.UINT8, [1])
WORD = Signature("w", Datatype.BYTES, [1])
HINT = Signature("hint", Datatype.INT32, [1], optional=True)


def read(value: Any, signature: Signature, batch: int = 0) -> Tensor:
    tensors, errors = read_inputs({signature.name: value}, [signature], batch)
    assert errors == []
    (tensor,) = tensors
    return tensor


def refuse(inputs: dict[str, Any] | list[InputTensor], *signatures: Signature, batch: int = 0) -> list[tuple[str, str]]:
    _, errors = read_inputs(inputs, signatures, batch)
    return [(error.pointer, error.detail) for error in errors]


def listed(name: str, datatype: Datatype, shape: list[int], data: Any) -> list[InputTensor]:
    return [InputTensor(name, shape, datatype, data)]


@pytest.mark.parametrize(
    ("value", "signature", "batch", "shape"),
    [
        ([[1, 2, 3], [4, 5, 6]], ROW, 0, [2, 3]),
        ([[1, 2, 3]], ROW, 8, [1, 3]),
        ([1, 2, 3], ROW, 8, [1, 3]),  # an item alone is a batch of one
        (7, ITEM, 0, [1]),
        ([7], ITEM, 0, [1]),
        (7, Signature("x", Datatype.UINT8, [-1, 1]), 8, [1, 1]),
        (7, Signature("x", Datatype.UINT8, []), 0, []),
        ([[], []], Signature("x", Datatype.UINT8, [-1, -1]), 0, [2, 0]),
        ([], Signature("x", Datatype.UINT8, [-1]), 0, [0]),
    ],
)
def test_nested_lists_and_scalars_take_the_models_shape(
    value: Any, signature: Signature, batch: int, shape: list[int]
) -> None:
    assert read(value, signature, batch).shape == shape


@pytest.mark.parametrize(
    ("encoded", "signature", "batch", "shape"),
    [
        ("AQID", ROW, 0, [1, 3]),
        ("AQIDAQID", ROW, 8, [2, 3]),
        ("AQID", Signature("x", Datatype.UINT8, [-1, -1]), 8, [1, 3]),
        ("", Signature("x", Datatype.UINT8, [-1]), 0, [0]),
        ("AQ==", ITEM, 0, [1]),
    ],
)
def test_raw_bytes_fill_the_open_dimension(encoded: str, signature: Signature, batch: int, shape: list[int]) -> None:
    assert read({"base64": encoded}, signature, batch).shape == shape


def test_raw_bytes_of_a_bytes_input_are_one_element() -> None:
    assert read({"base64": "/w=="}, WORD).data == b"\x01\x00\x00\x00\xff"


@pytest.mark.parametrize("data", [[1, 2, 3, 4, 5, 6], [[1, 2, 3], [4, 5, 6]], {"base64": "AQIDBAUG"}])
def test_the_protocols_list_takes_data_flat_nested_or_raw(data: Any) -> None:
    tensors, errors = read_inputs(listed("x", Datatype.UINT8, [2, 3], data), [ROW], 0)
    assert (tensors, errors) == ([Tensor("x", Datatype.UINT8, [2, 3], b"\x01\x02\x03\x04\x05\x06")], [])


@pytest.mark.parametrize(
    ("value", "signature", "batch", "pointer", "reason"),
    [
        ([1, 2], ROW, 0, "/inputs/x", "expected shape"),
        ([1, 2, 3], ROW, 0, "/inputs/x", "expected shape"),
        ([[1, 2, 3], [4, 5]], ROW, 0, "/inputs/x", "differ in length"),
        ([[1, 2, 3], 4], ROW, 0, "/inputs/x", "differ in length"),
        ([1.5], ITEM, 0, "/inputs/x", "element 0 is 1.5, not a whole number; UINT8"),
        ([256], ITEM, 0, "/inputs/x", "element 0: 256 is outside 0…255 of UINT8"),
        ({"base64": "!"}, ITEM, 0, "/inputs/x/base64", "not base64"),
        ({"base64": "AQI="}, ITEM, 0, "/inputs/x", "do not fit UINT8 of shape [1]; send 1 bytes"),
        ({"base64": "AQ=="}, ROW, 0, "/inputs/x", "do not fit UINT8 of shape [-1, 3]; send a multiple of 3 bytes"),
        (["hello", "you"], Signature("x", Datatype.BYTES, [-1, 1]), 8, "/inputs/x", "got [2]"),  # one item, or two?
        ({"base64": "AQ=="}, Signature("x", Datatype.UINT8, [-1, -1]), 0, "/inputs/x", "variable dimensions"),
        (
            {"base64": "AQ=="},
            Signature("x", Datatype.UINT8, [-1, -1, -1]),
            8,
            "/inputs/x",
            "variable dimensions",
        ),
        (["a", {"base64": "!"}], Signature("x", Datatype.BYTES, [2]), 0, "/inputs/x", "element 1 is not base64"),
    ],
)
def test_a_wrong_value_is_pointed_at(value: Any, signature: Signature, batch: int, pointer: str, reason: str) -> None:
    ((found, detail),) = refuse({"x": value}, signature, batch=batch)
    assert found == pointer
    assert reason in detail


def test_lists_nested_without_end_are_refused() -> None:
    value: Any = 1
    for _ in range(20):
        value = [value]
    ((pointer, detail),) = refuse({"x": value}, ROW)
    assert (pointer, "nested deeper" in detail) == ("/inputs/x", True)


@pytest.mark.parametrize(
    ("datatype", "shape", "data", "pointer"),
    [
        (Datatype.INT8, [1, 3], [1, 2, 3], "/inputs/0/datatype"),
        (Datatype.UINT8, [3], [1, 2, 3], "/inputs/0/shape"),
        (Datatype.UINT8, [1, 4], [1, 2, 3, 4], "/inputs/0/shape"),
        (Datatype.UINT8, [1, 3], [1, 2], "/inputs/0/data"),
        (Datatype.UINT8, [2, 3], [[1, 2], [3, 4], [5, 6]], "/inputs/0/data"),
        (Datatype.UINT8, [1, 3], [1, 2, "3"], "/inputs/0/data"),
        (Datatype.UINT8, [1, 3], {"base64": "AQ=="}, "/inputs/0/data"),
        (Datatype.UINT8, [1, 3], {"base64": "?"}, "/inputs/0/data/base64"),
        (Datatype.UINT8, [1, 3], None, "/inputs/0/data"),
    ],
)
def test_a_wrong_entry_of_the_protocols_list_is_pointed_at(
    datatype: Datatype, shape: list[int], data: Any, pointer: str
) -> None:
    ((found, _),) = refuse(listed("x", datatype, shape, data), ROW)
    assert found == pointer


def test_unknown_missing_and_doubled_inputs_are_all_told_at_once() -> None:
    assert [pointer for pointer, _ in refuse({"a/b~c": 1, "x": [1, 2]}, ROW, WORD)] == [
        "/inputs/a~1b~0c",
        "/inputs/x",
        "/inputs",
    ]
    twice = listed("w", Datatype.BYTES, [1], ["a"]) * 2
    assert [pointer for pointer, _ in refuse(twice, WORD)] == ["/inputs/1"]


def test_an_unknown_input_is_told_what_there_is() -> None:
    ((_, unknown), (_, missing)) = refuse({"image": 1}, WORD)
    assert "'w' (BYTES [1])" in unknown
    assert "'w' (BYTES [1]) is missing" in missing


def test_an_optional_input_may_be_left_out() -> None:
    tensors, errors = read_inputs({"w": "a"}, [WORD, HINT], 0)
    assert ([tensor.name for tensor in tensors], errors) == (["w"], [])


@pytest.mark.parametrize(("rows", "reason"), [(0, "0 items"), (5, "5 items")])
def test_a_batch_is_within_the_models_limit(rows: int, reason: str) -> None:
    ((pointer, detail),) = refuse(listed("x", Datatype.UINT8, [rows, 3], [7] * (3 * rows)), ROW, batch=4)
    assert (pointer, reason in detail) == ("/inputs", True)


def test_all_inputs_have_the_same_batch() -> None:
    other = Signature("y", Datatype.UINT8, [-1, 1])
    ((pointer, detail),) = refuse({"x": [[1, 2, 3]], "y": [[1], [2]]}, ROW, other, batch=4)
    assert (pointer, "[1, 2]" in detail) == ("/inputs", True)


def test_a_model_without_batches_has_no_limit_in_its_first_dimension() -> None:
    assert read([[1, 2, 3]] * 100, ROW, batch=0).shape == [100, 3]
