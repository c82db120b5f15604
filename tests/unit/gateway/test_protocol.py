"""The Open Inference Protocol's requests and answers, as Triton's clients write and read them."""

import math
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.jobs import Priority
from common.tensors import SIZES, Datatype, Signature, Tensor
from services.dispatcher.tensors import render_output
from services.gateway.errors import Problem
from services.gateway.protocol import Wanted, read_request
from services.gateway.protocol_answer import write_answer
from services.gateway.schemas import InputTensor, SubmitJob
from services.gateway.tensors import read_inputs

ALL_RAW = Wanted("", None, True)
ALL_JSON = Wanted("", None, False)
Y = [Signature("y", Datatype.FP32, [-1])]
X: dict[str, Any] = {"name": "x", "shape": [2], "datatype": "FP32"}
MANTISSAS = {Datatype.FP16: ("<H", 0x7C00), Datatype.BF16: ("<H", 0x7F80), Datatype.FP32: ("<I", 0x7F800000)} | {
    Datatype.FP64: ("<Q", 0x7FF << 52)
}


def ask(request: object, raw: bytes = b"", length: str | None = None) -> tuple[SubmitJob, Wanted]:
    text = request if isinstance(request, bytes) else msgspec.json.encode(request)
    return read_request(text + raw, length or (str(len(text)) if raw else None), "mirror", None, Y)


def store(*tensors: Tensor) -> bytes:
    """As the dispatcher writes a job's outputs."""
    return msgspec.json.encode([render_output(tensor) for tensor in tensors])


def calm(raw: bytes, datatype: Datatype) -> bytes:
    """The same bytes, but every NaN the one that its text stands for."""
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
    return calm(data.draw(st.binary(min_size=size, max_size=size)), datatype)


@pytest.mark.parametrize("datatype", list(Datatype))
@given(data=st.data(), count=st.integers(0, 8))
def test_raw_bytes_come_back_from_what_is_stored(datatype: Datatype, data: st.DataObject, count: int) -> None:
    raw = draw_raw(data, datatype, count)
    asked = {"inputs": [{"name": "x", "shape": [1, count], "datatype": datatype, "parameters": {}}]}
    asked["inputs"][0]["parameters"] = {"binary_data_size": len(raw)}
    head = msgspec.json.encode(asked)
    job, _ = read_request(head + raw, str(len(head)), "mirror", None, Y)
    (tensor,), errors = read_inputs(job.inputs, [Signature("x", datatype, [-1, -1])], 0)
    assert (errors, tensor) == ([], Tensor("x", datatype, [1, count], raw))

    body, length = write_answer(ALL_RAW, "mirror", "1", store(tensor))
    assert length is not None
    assert body[length:] == raw
    assert msgspec.json.decode(body[:length])["outputs"] == [
        {"name": "x", "datatype": datatype, "shape": [1, count], "parameters": {"binary_data_size": len(raw)}}
    ]


def test_a_nan_of_any_kind_comes_back_as_a_nan() -> None:
    tensor = Tensor("x", Datatype.FP32, [1], b"\x01\x00\x80\xff")
    body, length = write_answer(ALL_RAW, "mirror", "1", store(tensor))
    assert math.isnan(struct.unpack("<f", body[length:])[0])


def test_json_is_answered_as_triton_writes_it() -> None:
    numbers = Tensor("n", Datatype.FP32, [3], struct.pack("<3f", math.nan, -math.inf, 1.5))
    texts = Tensor("t", Datatype.BYTES, [2], b"\x01\x00\x00\x00a\x08\x00\x00\x00" + b'{"base64')
    assert write_answer(Wanted("7", None, False), "mirror", "2", store(numbers, texts)) == (
        b'{"id":"7","model_name":"mirror","model_version":"2","outputs":['
        b'{"name":"n","datatype":"FP32","shape":[3],"data":[NaN,-Infinity,1.5]},'
        b'{"name":"t","datatype":"BYTES","shape":[2],"data":["a","{\\"base64"]}]}',
        None,
    )


def test_outputs_come_as_they_were_asked_for_each_in_its_way() -> None:
    stored = store(
        *(Tensor(name, Datatype.UINT8, [1], value) for name, value in (("a", b"1"), ("b", b"2"), ("c", b"3")))
    )
    body, length = write_answer(Wanted("", {"c": True, "a": False}, False), "mirror", "1", stored)
    assert length is not None
    assert body[length:] == b"3"
    assert msgspec.json.decode(body[:length])["outputs"] == [
        {"name": "c", "datatype": "UINT8", "shape": [1], "parameters": {"binary_data_size": 1}},
        {"name": "a", "datatype": "UINT8", "shape": [1], "data": [49]},
    ]


def test_bytes_that_are_no_text_must_be_asked_for_raw() -> None:
    stored = store(Tensor("y", Datatype.BYTES, [1], b"\x01\x00\x00\x00\xff"))
    with pytest.raises(Problem, match="output 'y' is not all UTF-8: ask for it with binary_data"):
        write_answer(ALL_JSON, "mirror", "1", stored)


def test_an_output_that_the_model_has_lost_meanwhile_is_named() -> None:
    stored = store(Tensor("y", Datatype.INT32, [1], bytes(4)))
    with pytest.raises(Problem, match="gave no output 'z'; it gave 'y'") as caught:
        write_answer(Wanted("", {"z": True}, True), "mirror", "1", stored)
    assert caught.value.status == 400


def test_bare_nan_and_infinity_are_numbers() -> None:
    job, _ = ask(b'{"inputs":[{"name":"x","shape":[3],"datatype":"FP32","data":[NaN,-Infinity,Infinity]}]}')
    (tensor,), errors = read_inputs(job.inputs, [Signature("x", Datatype.FP32, [-1])], 0)
    assert errors == []
    found = struct.unpack("<3f", tensor.data)
    assert math.isnan(found[0])
    assert found[1:] == (-math.inf, math.inf)


def test_tensors_share_the_bytes_in_their_order() -> None:
    sizes = (("a", 2), ("b", 0), ("c", 1))
    job, _ = ask(
        {"inputs": [X | {"name": name, "parameters": {"binary_data_size": size}} for name, size in sizes]}, b"123"
    )
    assert job.inputs == [
        InputTensor(name, [2], Datatype.FP32, data) for name, data in zip("abc", (b"12", b"", b"3"), strict=True)
    ]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, (Priority.NORMAL, 600.0, None)),
        ({"priority": 0, "timeout": 0}, (Priority.NORMAL, 600.0, None)),
        ({"priority": 1, "timeout": 2_500_000}, (Priority.HIGH, 2.5, None)),
        ({"priority": 2, "timeout": 2**64}, (Priority.NORMAL, 604_800.0, None)),
        ({"priority": 3, "binary_data_output": True}, (Priority.LOW, 600.0, None)),
        ({"priority": 10**30, "sequence_id": 0, "sequence_end": True}, (Priority.LOW, 600.0, None)),
        ({"mine": 1.5, "yours": "a", "sequence_id": ""}, (Priority.NORMAL, 600.0, {"mine": 1.5, "yours": "a"})),
    ],
)
def test_parameters_become_the_jobs_or_the_models(parameters: dict[str, object], expected: tuple[object, ...]) -> None:
    job, _ = ask({"inputs": [], "parameters": parameters})
    assert (job.priority, job.timeout, job.parameters) == expected


def test_outputs_are_wanted_raw_where_it_is_said() -> None:
    wanted = {"inputs": [], "parameters": {"binary_data_output": True}, "id": "7", "unknown": 1}
    assert ask(wanted)[1] == Wanted("7", None, True)
    assert ask(wanted | {"outputs": [{"name": "y"}]})[1] == Wanted("7", {"y": True}, True)
    assert ask(wanted | {"outputs": [{"name": "y", "parameters": {"binary_data": False}}]})[1].outputs == {"y": False}


REFUSED: dict[str, tuple[object, str]] = {
    "no JSON": (b'{"inputs" []}', "failed to parse the request JSON: JSON is malformed: expected ':' (byte 10)"),
    "nothing": (b"", "failed to parse the request JSON: Input data was truncated"),
    "no UTF-8": (b'{"id":"\xff"}', "failed to parse the request JSON: 'utf-8' codec can't decode"),
    "nested deeply": (b'{"inputs":[{"data":' + b"[" * 100_000, "failed to parse the request JSON"),
    "a lone surrogate": (b'{"id":"\\ud800","inputs":[{"data":NaN}]}', "failed to parse the request JSON"),
    "a number of many digits": (b'{"id":NaN,"inputs":1' + b"0" * 5000 + b"}", "failed to parse the request JSON"),
    "a list": ([], "the body: Expected `object`, got `array`"),
    "no inputs": ({}, "/inputs: Object missing required field `inputs`"),
    "an unknown datatype": ({"inputs": [X | {"datatype": "FLOAT"}]}, "/inputs/0/datatype: Invalid enum value 'FLOAT'"),
    "a negative dimension": ({"inputs": [X | {"shape": [-1]}]}, "/inputs/0/shape/0: Expected `int` >= 0"),
    "an id that is a number": ({"inputs": [], "id": 5}, "/id: Expected `str`, got `int`"),
    "an unknown output": (
        {"inputs": [], "outputs": [{"name": "z"}]},
        "unexpected inference output 'z' for model 'mirror'",
    ),
    "no data": ({"inputs": [X]}, "input 'x' must have either 'data' or 'binary_data_size' in 'parameters'"),
    "data twice": (
        {"inputs": [X | {"data": [1], "parameters": {"binary_data_size": 4}}]},
        "input 'x' must have either 'data' or 'binary_data_size' in 'parameters'",
    ),
    "a size that is none": (
        {"inputs": [X | {"parameters": {"binary_data_size": -1}}]},
        "'binary_data_size' of input 'x' is not a size",
    ),
    "too few bytes": (
        {"inputs": [X | {"parameters": {"binary_data_size": 8}}]},
        "unexpected size for input 'x', expecting 8 additional bytes for model 'mirror'",
    ),
    "a sequence": ({"inputs": [], "parameters": {"sequence_id": "a"}}, "sequences are not offered here"),
    "a classification": (
        {"inputs": [], "outputs": [{"name": "y", "parameters": {"classification": 2}}]},
        "classification is not offered here: ask for output 'y' itself",
    ),
    "an input in shared memory": (
        {"inputs": [X | {"parameters": {"shared_memory_region": "a"}}]},
        "shared memory is not offered here: input 'x' must travel with the request",
    ),
    "an output in shared memory": (
        {"inputs": [], "outputs": [{"name": "y", "parameters": {"shared_memory_region": "a"}}]},
        "shared memory is not offered here: output 'y' must travel with the request",
    ),
    "a priority that is none": ({"inputs": [], "parameters": {"priority": "high"}}, "parameter 'priority' is not"),
    "a timeout that is none": ({"inputs": [], "parameters": {"timeout": 1.5}}, "parameter 'timeout' is not"),
    "a flag that is none": ({"inputs": [], "parameters": {"binary_data_output": 1}}, "parameter 'binary_data_output'"),
    "a parameter that is a list": ({"inputs": [], "parameters": {"mine": [1]}}, "parameter 'mine' has invalid type."),
}


@pytest.mark.parametrize(("request_", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_can_not_be_served_is_refused_with_a_reason(request_: object, text: str) -> None:
    with pytest.raises(Problem) as refused:
        ask(request_)
    assert refused.value.status == 400
    assert refused.value.detail.startswith(text)
    assert len(refused.value.detail) <= 500


@pytest.mark.parametrize("length", ["0", "-1", "x", "14", "²", "9" * 30])
def test_the_json_must_lie_within_the_body(length: str) -> None:
    with pytest.raises(Problem, match=r"Inference-Header-Content-Length should be in range \(0, 13\]"):
        ask({"inputs": []}, length=length)


def test_bytes_that_belong_to_no_input_are_refused() -> None:
    with pytest.raises(Problem, match="unexpected additional input data for model 'mirror': 1 bytes"):
        ask({"inputs": []}, b"1")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x01\x00\x00\x00a", "the shape takes 2 elements, got 1"),
        (b"\x01\x00\x00\x00a\x01\x00", "the last element is not whole"),
        (b"\x00\x00\x00\x00\x09\x00\x00\x00a", "the last element is not whole"),
    ],
)
def test_raw_bytes_elements_must_fill_the_shape(raw: bytes, text: str) -> None:
    _, (error,) = read_inputs([InputTensor("x", [2], Datatype.BYTES, raw)], [Signature("x", Datatype.BYTES, [-1])], 0)
    assert (error.pointer, error.detail[: len(text)]) == ("/inputs/0/data", text)
