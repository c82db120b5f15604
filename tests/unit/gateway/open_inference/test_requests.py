"""Requests and responses of the Open Inference Protocol, as Triton's clients write and read them."""

import math
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from common.job_states import Priority
from common.tensors import SIZES, Datatype, Signature, Tensor
from services.gateway.http.problems import Problem
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.inputs.validation import read_inputs
from services.gateway.jobs.schemas import SubmitJob
from services.gateway.open_inference.requests import ResponseFormat, parse_request
from services.gateway.open_inference.responses import StoredOutput
from services.gateway.open_inference.responses import render_response as render_parts
from tests.support.api.outputs import render as render_stored

ALL_RAW = ResponseFormat("", None, True)
ALL_JSON = ResponseFormat("", None, False)
Y = [Signature("y", Datatype.FP32, [-1])]
X: dict[str, Any] = {"name": "x", "shape": [2], "datatype": "FP32"}
MANTISSAS = {Datatype.FP16: ("<H", 0x7C00), Datatype.BF16: ("<H", 0x7F80), Datatype.FP32: ("<I", 0x7F800000)} | {
    Datatype.FP64: ("<Q", 0x7FF << 52)
}


def parse(request: object, raw: bytes = b"", length: str | None = None) -> tuple[SubmitJob, ResponseFormat]:
    text = request if isinstance(request, bytes) else msgspec.json.encode(request)
    return parse_request(text + raw, length or (str(len(text)) if raw else None), "mirror", None, Y)


def render_response(requested: ResponseFormat, model: str, version: str, stored: bytes) -> tuple[bytes, int | None]:
    """Return a body without files."""
    parts, length = render_parts(requested, model, version, stored)
    return b"".join(part for part in parts if isinstance(part, bytes)), length


def normalize_nans(raw: bytes, datatype: Datatype) -> bytes:
    """Replace every NaN by the one that the text `NaN` decodes to."""
    if datatype not in MANTISSAS:
        return raw
    code, infinite = MANTISSAS[datatype]
    size = SIZES[datatype]
    quiet = {2: 0x7E00 if datatype is Datatype.FP16 else 0x7FC0, 4: 0x7FC00000, 8: 0x7FF8 << 48}[size]
    values = [value for (value,) in struct.iter_unpack(code, raw)]
    sign = 1 << 8 * size - 1
    return b"".join(struct.pack(code, quiet if value & ~sign > infinite else value) for value in values)


def draw_raw(data: st.DataObject, datatype: Datatype, count: int) -> bytes:
    if datatype is Datatype.BYTES:
        elements = data.draw(st.lists(st.binary(max_size=8), min_size=count, max_size=count))
        return b"".join(struct.pack("<I", len(element)) + element for element in elements)
    if datatype is Datatype.BOOL:
        return bytes(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    size = count * SIZES[datatype]
    return normalize_nans(data.draw(st.binary(min_size=size, max_size=size)), datatype)


@pytest.mark.parametrize("datatype", list(Datatype))
@settings(max_examples=40)  # of each datatype
@given(data=st.data(), count=st.integers(0, 8))
def test_raw_bytes_round_trip(datatype: Datatype, data: st.DataObject, count: int) -> None:
    raw = draw_raw(data, datatype, count)
    request = {"inputs": [{"name": "x", "shape": [1, count], "datatype": datatype, "parameters": {}}]}
    request["inputs"][0]["parameters"] = {"binary_data_size": len(raw)}
    head = msgspec.json.encode(request)
    job, _ = parse_request(head + raw, str(len(head)), "mirror", None, Y)
    (tensor,), errors = read_inputs(job.inputs, [Signature("x", datatype, [-1, -1])], 0)
    assert (errors, tensor) == ([], Tensor("x", datatype, [1, count], raw))

    body, length = render_response(ALL_RAW, "mirror", "1", render_stored(tensor))
    assert length is not None
    assert body[length:] == raw
    assert msgspec.json.decode(body[:length])["outputs"] == [
        {"name": "x", "datatype": datatype, "shape": [1, count], "parameters": {"binary_data_size": len(raw)}}
    ]


def test_any_nan_is_returned_as_a_nan() -> None:
    tensor = Tensor("x", Datatype.FP32, [1], b"\x01\x00\x80\xff")
    body, length = render_response(ALL_RAW, "mirror", "1", render_stored(tensor))
    assert math.isnan(struct.unpack("<f", body[length:])[0])


def test_json_is_rendered_as_in_triton() -> None:
    numbers = Tensor("n", Datatype.FP32, [3], struct.pack("<3f", math.nan, -math.inf, 1.5))
    texts = Tensor("t", Datatype.BYTES, [2], b"\x01\x00\x00\x00a\x08\x00\x00\x00" + b'{"base64')
    assert render_response(ResponseFormat("7", None, False), "mirror", "2", render_stored(numbers, texts)) == (
        b'{"id":"7","model_name":"mirror","model_version":"2","outputs":['
        b'{"name":"n","datatype":"FP32","shape":[3],"data":[NaN,-Infinity,1.5]},'
        b'{"name":"t","datatype":"BYTES","shape":[2],"data":["a","{\\"base64"]}]}',
        None,
    )


def test_outputs_have_the_requested_order_and_format() -> None:
    stored = render_stored(
        *(Tensor(name, Datatype.UINT8, [1], value) for name, value in (("a", b"1"), ("b", b"2"), ("c", b"3")))
    )
    body, length = render_response(ResponseFormat("", {"c": True, "a": False}, False), "mirror", "1", stored)
    assert length is not None
    assert body[length:] == b"3"
    assert msgspec.json.decode(body[:length])["outputs"] == [
        {"name": "c", "datatype": "UINT8", "shape": [1], "parameters": {"binary_data_size": 1}},
        {"name": "a", "datatype": "UINT8", "shape": [1], "data": [49]},
    ]


IN_FILES = msgspec.json.encode(
    [
        {"name": "n", "datatype": "FP32", "shape": [2], "file": "file_1", "size": 8, "sha256": ""},
        {"name": "t", "datatype": "BYTES", "shape": [1], "file": "file_2", "size": 2, "sha256": ""},
        {"name": "u", "datatype": "UINT8", "shape": [1], "data": [7]},
    ]
)


def test_raw_tensors_of_files_are_parts_of_the_body() -> None:
    (head, *parts), length = render_parts(ALL_RAW, "mirror", "1", IN_FILES)
    assert isinstance(head, bytes)
    assert len(head) == length
    sizes = [each["parameters"]["binary_data_size"] for each in msgspec.json.decode(head)["outputs"]]
    assert sizes == [8, 4 + 2, 1]
    assert [part.file if isinstance(part, StoredOutput) else part for part in parts] == ["file_1", "file_2", b"\x07"]


def test_files_become_json_if_that_is_requested() -> None:
    contents = {"n": struct.pack("<2f", math.nan, 1.5), "t": b"ab"}
    (body,), length = render_parts(ALL_JSON, "mirror", "1", IN_FILES, contents)
    assert isinstance(body, bytes)
    assert length is None
    assert b'"shape":[2],"data":[NaN,1.5]' in body
    assert b'"shape":[1],"data":["ab"]' in body


def test_bytes_that_are_not_text_must_be_requested_raw() -> None:
    stored = render_stored(Tensor("y", Datatype.BYTES, [1], b"\x01\x00\x00\x00\xff"))
    with pytest.raises(Problem, match="output 'y' is not UTF-8: request it with binary_data"):
        render_response(ALL_JSON, "mirror", "1", stored)


def test_a_missing_output_is_named() -> None:
    stored = render_stored(Tensor("y", Datatype.INT32, [1], bytes(4)))
    with pytest.raises(Problem, match="returned no output 'z'; it returned 'y'") as caught:
        render_response(ResponseFormat("", {"z": True}, True), "mirror", "1", stored)
    assert caught.value.status == 400


def test_unquoted_nan_and_infinity_are_numbers() -> None:
    job, _ = parse(b'{"inputs":[{"name":"x","shape":[3],"datatype":"FP32","data":[NaN,-Infinity,Infinity]}]}')
    (tensor,), errors = read_inputs(job.inputs, [Signature("x", Datatype.FP32, [-1])], 0)
    assert errors == []
    assert isinstance(tensor.data, bytes)
    found = struct.unpack("<3f", tensor.data)
    assert math.isnan(found[0])
    assert found[1:] == (-math.inf, math.inf)


def test_inputs_take_the_raw_bytes_in_order() -> None:
    sizes = (("a", 2), ("b", 0), ("c", 1))
    job, _ = parse(
        {"inputs": [X | {"name": name, "parameters": {"binary_data_size": size}} for name, size in sizes]}, b"123"
    )
    assert job.inputs == [
        InputTensor(name, [2], Datatype.FP32, data) for name, data in zip("abc", (b"12", b"", b"3"), strict=True)
    ]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, (Priority.NORMAL, UNSET, None)),
        ({"priority": 0, "timeout": 0}, (Priority.NORMAL, UNSET, None)),
        ({"priority": 1, "timeout": 2_500_000}, (Priority.HIGH, 2.5, None)),
        ({"priority": 2, "timeout": 2**64}, (Priority.NORMAL, 604_800.0, None)),
        ({"priority": 3, "binary_data_output": True}, (Priority.LOW, UNSET, None)),
        ({"priority": 10**30, "sequence_id": 0, "sequence_end": True}, (Priority.LOW, UNSET, None)),
        ({"mine": 1.5, "yours": "a", "sequence_id": ""}, (Priority.NORMAL, UNSET, {"mine": 1.5, "yours": "a"})),
    ],
)
def test_parameters_go_to_the_job_or_the_model(parameters: dict[str, object], expected: tuple[object, ...]) -> None:
    job, _ = parse({"inputs": [], "parameters": parameters})
    assert (job.priority, job.timeout, job.parameters) == expected


def test_outputs_are_raw_if_requested() -> None:
    request = {"inputs": [], "parameters": {"binary_data_output": True}, "id": "7", "unknown": 1}
    assert parse(request)[1] == ResponseFormat("7", None, True)
    assert parse(request | {"outputs": [{"name": "y"}]})[1] == ResponseFormat("7", {"y": True}, True)
    assert parse(request | {"outputs": [{"name": "y", "parameters": {"binary_data": False}}]})[1].outputs == {
        "y": False
    }


REFUSED: dict[str, tuple[object, str]] = {
    "not JSON": (
        b'{"inputs" []}',
        "failed to parse the request JSON: the body is not JSON: line 1, column 11, at `[]}`",
    ),
    "nothing": (b"", "failed to parse the request JSON: the body is empty"),
    "not UTF-8": (b'{"id":"\xff"}', "failed to parse the request JSON: the body is not JSON: byte 7 is not UTF-8"),
    "nested deeply": (b'{"inputs":[{"data":' + b"[" * 100_000, "failed to parse the request JSON"),
    "a lone surrogate": (b'{"id":"\\ud800","inputs":[{"data":NaN}]}', "failed to parse the request JSON"),
    "a number of many digits": (b'{"id":NaN,"inputs":1' + b"0" * 5000 + b"}", "failed to parse the request JSON"),
    "a list": ([], 'the body must be an object like {"inputs": […]}, got a list'),
    "no inputs": ({}, "/inputs: is missing; it must be a list"),
    "an unknown datatype": ({"inputs": [X | {"datatype": "FLOAT"}]}, "/inputs/0/datatype: must be one of BOOL, UINT8"),
    "a negative dimension": ({"inputs": [X | {"shape": [-1]}]}, "/inputs/0/shape/0: must be at least 0, got -1"),
    "an id that is a number": ({"inputs": [], "id": 5}, "/id: must be a string, got 5"),
    "an unknown output": (
        {"inputs": [], "outputs": [{"name": "z"}]},
        "unexpected inference output 'z' for model 'mirror'",
    ),
    "no data": ({"inputs": [X]}, "input 'x' must have either 'data' or 'binary_data_size' in 'parameters'"),
    "data twice": (
        {"inputs": [X | {"data": [1], "parameters": {"binary_data_size": 4}}]},
        "input 'x' must have either 'data' or 'binary_data_size' in 'parameters'",
    ),
    "an invalid size": (
        {"inputs": [X | {"parameters": {"binary_data_size": -1}}]},
        "'binary_data_size' of input 'x' must be a whole number from 0",
    ),
    "too few bytes": (
        {"inputs": [X | {"parameters": {"binary_data_size": 8}}]},
        "unexpected size for input 'x', expecting 8 additional bytes for model 'mirror'",
    ),
    "a sequence": ({"inputs": [], "parameters": {"sequence_id": "a"}}, "sequences are not supported"),
    "a classification": (
        {"inputs": [], "outputs": [{"name": "y", "parameters": {"classification": 2}}]},
        "classification is not supported: request output 'y' itself",
    ),
    "an input in shared memory": (
        {"inputs": [X | {"parameters": {"shared_memory_region": "a"}}]},
        "shared memory is not supported: send input 'x' over HTTP",
    ),
    "an output in shared memory": (
        {"inputs": [], "outputs": [{"name": "y", "parameters": {"shared_memory_region": "a"}}]},
        "shared memory is not supported: send output 'y' over HTTP",
    ),
    "an invalid priority": ({"inputs": [], "parameters": {"priority": "high"}}, "parameter 'priority' must be"),
    "an invalid timeout": ({"inputs": [], "parameters": {"timeout": 1.5}}, "parameter 'timeout' must be"),
    "an invalid flag": ({"inputs": [], "parameters": {"binary_data_output": 1}}, "parameter 'binary_data_output'"),
    "a parameter that is a list": ({"inputs": [], "parameters": {"mine": [1]}}, "parameter 'mine' has invalid type."),
}


@pytest.mark.parametrize(("request_", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_an_unsupported_request_is_refused_with_a_reason(request_: object, text: str) -> None:
    with pytest.raises(Problem) as refused:
        parse(request_)
    assert refused.value.status == 400
    assert refused.value.detail.startswith(text)
    assert len(refused.value.detail) <= 500


@pytest.mark.parametrize("length", ["0", "-1", "x", "14", "²", "9" * 30])
def test_the_json_must_be_within_the_body(length: str) -> None:
    with pytest.raises(Problem, match=r"Inference-Header-Content-Length should be in range \(0, 13\]"):
        parse({"inputs": []}, length=length)


def test_bytes_without_an_input_are_refused() -> None:
    with pytest.raises(Problem, match="unexpected additional input data for model 'mirror': 1 bytes"):
        parse({"inputs": []}, b"1")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x01\x00\x00\x00a", "the shape needs 2 elements, got 1"),
        (b"\x01\x00\x00\x00a\x01\x00", "the last element is incomplete"),
        (b"\x00\x00\x00\x00\x09\x00\x00\x00a", "the last element is incomplete"),
    ],
)
def test_raw_bytes_elements_must_fill_the_shape(raw: bytes, text: str) -> None:
    _, (error,) = read_inputs([InputTensor("x", [2], Datatype.BYTES, raw)], [Signature("x", Datatype.BYTES, [-1])], 0)
    assert (error.pointer, error.detail[: len(text)]) == ("/inputs/0/data", text)
