"""Python values become tensors as the model's signature says. Mistakes are found before anything is sent."""

import base64
import io
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import msgspec
import numpy as np
import pytest
from charonia.errors import InvalidInput
from charonia.inputs import encode_body, encode_inputs, encode_unchecked, find_only_input, has_files, read_files
from charonia.model_schemas import (
    ModelInfo,
    TensorInfo,
)
from charonia.references import FileId, Url
from charonia.sources import find_large, find_references
from charonia.tensors import FileReference, Raw, UrlReference

from common.tensors import Datatype, Signature, Tensor, UrlContent
from services.gateway.jobs.inputs.references import KnownFiles
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.inputs.validation import read_inputs

MIB = 1024 * 1024
URL = "https://example.com/cat.png"
FILE = "file_01m0p2tmt8fa7bvqpx6v5ebrxj"
NUMBERS = [each for each in Datatype if each not in (Datatype.BYTES, Datatype.BOOL)]


def make_model(*inputs: TensorInfo, max_batch_size: int = 0) -> ModelInfo:
    return ModelInfo(
        name="m",
        ready=True,
        streaming=False,
        max_batch_size=max_batch_size,
        versions=[],
        inputs=list(inputs),
        outputs=[],
        queue={},
    )


def tensor(datatype: str, shape: Sequence[int] = (-1,), *, optional: bool = False, name: str = "x") -> TensorInfo:
    return TensorInfo(name, datatype, list(shape), optional)


def receive(model: ModelInfo, **inputs: Any) -> dict[str, Tensor]:
    """Return what the gateway makes of inputs."""
    sent = msgspec.json.encode(encode_inputs(model, inputs))
    signatures = [Signature(each.name, Datatype(each.datatype), each.shape, each.optional) for each in model.inputs]
    given = msgspec.json.decode(sent, type=list[InputTensor])
    found, errors = read_inputs(given, signatures, model.max_batch_size or 0, KnownFiles({}, MIB))
    assert errors == []
    return {each.name: each for each in found}


def refuse(model: ModelInfo, **inputs: Any) -> list[str]:
    """Return the mistakes in inputs."""
    with pytest.raises(InvalidInput) as caught:
        encode_inputs(model, inputs)
    return [str(each) for each in caught.value.errors]


@pytest.mark.parametrize("datatype", NUMBERS)
def test_lists_and_arrays_of_numbers_become_the_same_bytes(datatype: Datatype) -> None:
    model = make_model(tensor(datatype, [2, 2]))
    values = [[0, 1], [2, 100]]
    from_list = receive(model, x=values)["x"]
    assert isinstance(from_list.data, bytes)
    assert (from_list.shape, len(from_list.data)) == (
        [2, 2],
        4 * (2 if datatype == "BF16" else np.dtype(kind(datatype)).itemsize),
    )
    assert receive(model, x=np.array(values))["x"] == from_list
    assert receive(model, x=np.array(values, np.uint8))["x"] == from_list
    assert receive(model, x=np.array(values).T.copy().T)["x"] == from_list  # not contiguous
    assert receive(model, x=from_list.data)["x"] == from_list  # raw bytes


def kind(datatype: str) -> str:
    return {"F": "f", "I": "i", "U": "u"}[datatype[0]] + str(int(datatype.lstrip("BFPINTU")) // 8)


@pytest.mark.parametrize(
    ("value", "datatype", "wanted", "shape"),
    [
        ({"url": URL}, "BYTES", [-1, 1], [1, 1]),
        ({"url": URL, "shape": [3], "datatype": "FP32"}, "FP32", [-1, 3], [1, 3]),
        ({"url": URL, "shape": (2, 3)}, "FP32", [-1, 3], [2, 3]),
    ],
)
def test_a_url_is_passed_on(value: dict[str, Any], datatype: str, wanted: list[int], shape: list[int]) -> None:
    model = make_model(tensor(datatype, wanted), max_batch_size=4)
    assert receive(model, x=value)["x"] == Tensor("x", Datatype(datatype), shape, UrlContent(URL))
    assert encode_unchecked({"x": value}) == {"x": value}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"url": URL}, "give it too: {'url': …, 'shape': [-1, 3]}"),
        ({"url": URL, "shape": 3}, "give it too"),
        ({"url": URL, "shape": [4]}, "has the shape [4]"),
        ({"url": URL, "shape": [3], "datatype": "INT8"}, "has the datatype 'INT8', but the model wants FP32"),
        ({"url": URL, "shape": [3], "dtype": "FP32"}, "has the unknown key 'dtype'"),
    ],
)
def test_a_mistake_beside_a_url_is_named(value: dict[str, Any], text: str) -> None:
    (mistake,) = refuse(make_model(tensor("FP32", [-1, 3]), max_batch_size=4), x=value)
    assert text in mistake


def test_floats_that_are_not_finite_arrive() -> None:
    model = make_model(tensor("FP32"))
    data = receive(model, x=[float("nan"), float("-inf"), 0.5])["x"].data
    assert receive(model, x=np.array([np.nan, -np.inf, 0.5]))["x"].data == data
    assert receive(model, x=np.float64("-inf"))["x"].data == struct.pack("<f", float("-inf"))
    assert isinstance(data, bytes)
    assert struct.unpack("<3f", data)[1:] == (float("-inf"), 0.5)


@pytest.mark.parametrize("value", [1.0, 3.14159, -2.5e-40, 65504.0, 1.00390625, float("inf"), float("nan")])
def test_bf16_is_rounded_as_other_libraries_do(value: float) -> None:
    expected = np.array([value], np.float32).astype(ml_dtypes.bfloat16)
    model = make_model(tensor("BF16"))
    for given in ([value], np.array([value], np.float32), expected):
        data = receive(model, x=given)["x"].data
        assert isinstance(data, bytes)
        found = np.frombuffer(data, ml_dtypes.bfloat16)
        np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_one_value_and_one_item_of_a_batch_get_their_dimensions() -> None:
    model = make_model(tensor("FP32", [-1, -1]), max_batch_size=4)
    assert receive(model, x=[1, 2, 3])["x"].shape == [1, 3]
    assert receive(model, x=5)["x"].shape == [1, 1]
    assert receive(model, x=np.float32(5))["x"].shape == [1, 1]
    assert receive(model, x=np.zeros((2, 3)))["x"].shape == [2, 3]


def test_texts_bytes_paths_and_files_become_elements(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\xff\x00")
    model = make_model(tensor("BYTES", [-1]))
    files: dict[str, Any] = {"x": [tmp_path / "image", io.BytesIO(b"file"), "größe", b"bytes"]}
    assert has_files(files["x"])
    found = receive(model, **read_files(files, MIB))["x"]
    elements = [b"\xff\x00", b"file", "größe".encode(), b"bytes"]
    assert found.data == b"".join(struct.pack("<I", len(each)) + each for each in elements)
    assert receive(model, x=np.array(["größe", b"bytes"], object))["x"].shape == [2]
    assert not has_files([b"", "", 1, np.zeros(1)])


@pytest.mark.parametrize(
    ("datatype", "value", "text"),
    [
        ("INT32", 1.7, "element 0 is float 1.7, but the model wants INT32"),
        ("INT32", [1, True], "element 1 is bool True, but the model wants INT32"),
        ("UINT8", [255, 256], "a value is out of the range of UINT8"),
        ("UINT8", np.array([-1]), "a value is out of the range of UINT8"),
        (
            "INT32",
            np.array([1.5]),
            "the array has the dtype float64, but the model wants INT32; convert it with astype",
        ),
        ("FP16", [1e6], "a value is out of the range of FP16"),
        ("FP16", np.array([1e6]), "a value is out of the range of FP16"),
        ("FP32", np.array([1e300]), "a value is out of the range of FP32"),
        ("FP32", np.float64(1e300), "a value is out of the range of FP32"),
        ("FP64", np.array([np.longdouble("1e400")]), "a value is out of the range of FP64"),
        ("BF16", [3.4e38], "a value is out of the range of BF16"),
        ("FP32", ["1"], "element 0 is str '1', but the model wants FP32"),
        ("BOOL", [1], "element 0 is int 1, but the model wants BOOL"),
        ("BYTES", [1], "element 0 is int 1, but the model wants BYTES: str, bytes, a path or a file"),
        ("BYTES", ["\ud800"], "element 0 is not Unicode text; pass bytes instead"),
        ("BYTES", np.zeros(2), "the array has the dtype float64, but the model wants BYTES; convert it with astype"),
        ("FP32", [[1], [1, 2]], "the nested lists differ in length; pad them, or submit a job for each"),
        ("FP32", [[1, 2]], "has the shape [1, 2], but the model wants [-1] (-1 is any size)"),
        ("FP32", b"12345", "5 bytes do not fit FP32 [-1]"),
        ("FP32", None, "is NoneType None; pass str, bytes, a path, numbers, lists or an array"),
    ],
)
def test_a_mistake_in_a_value_is_reported(datatype: str, value: Any, text: str) -> None:
    assert refuse(make_model(tensor(datatype)), x=value) == [f"/inputs/x: {text}"]


def test_all_mistakes_are_reported_at_once() -> None:
    model = make_model(tensor("BYTES", name="image"), tensor("INT32", name="size"), tensor("FP32", optional=True))
    assert refuse(model, imag="x", size="y") == [
        "/inputs/imag: the model has no input 'imag'; did you mean 'image'?",
        "/inputs/size: element 0 is str 'y', but the model wants INT32",
        "/inputs: input 'image' (BYTES [-1]) is missing",
    ]


def test_batches_must_agree_and_fit() -> None:
    model = make_model(tensor("FP32", [-1, 1]), tensor("FP32", [-1, 1], name="y"), max_batch_size=2)
    assert refuse(model, x=[[1], [2]], y=[[1]]) == [
        "/inputs: the batch, the first dimension, differs between inputs: [1, 2]"
    ]
    assert refuse(model, x=[[1]] * 3, y=[[1]] * 3) == ["/inputs: the batch has 3 items; the model accepts 1 to 2"]


def test_raw_bytes_of_several_variable_dimensions_are_ambiguous() -> None:
    assert "pass a NumPy array" in refuse(make_model(tensor("FP32", [-1, -1])), x=b"1234")[0]


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(2 * MIB))
    for value in (tmp_path / "large", (tmp_path / "large").open("rb")):
        with pytest.raises(InvalidInput, match=r"at most 0\.8 MiB can be sent in a request"):
            read_files({"x": value}, MIB)
        if not isinstance(value, Path):
            value.close()
    with pytest.raises(InvalidInput, match="No such file"):
        read_files({"x": tmp_path / "missing"}, MIB)


def test_a_request_over_the_limit_is_not_sent() -> None:
    with pytest.raises(InvalidInput, match=r"the request is 2\.0 MiB"):
        encode_body({"inputs": "x" * 2 * MIB}, MIB)
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        encode_body({"metadata": {"a": object()}}, MIB)


def test_a_key_that_may_not_read_the_signature_sends_what_it_is_given() -> None:
    found = encode_unchecked({"a": b"\xff", "b": np.array([[1.5]]), "c": ["x", b"y"], "d": [float("nan")]})
    assert found == {"a": Raw(b"\xff"), "b": [[1.5]], "c": ["x", Raw(b"y")], "d": ["NaN"]}
    assert msgspec.json.encode(found["a"]) == b'{"base64":"%b"}' % base64.b64encode(b"\xff")


def test_only_a_type_of_its_own_makes_a_text_a_reference() -> None:
    model = make_model(tensor("BYTES", [1]))
    sent = [encode_inputs(model, {"x": each})[0].data for each in (URL, Url(URL), FILE, FileId(FILE))]
    assert sent == [[URL], UrlReference(URL), [FILE], FileReference(FILE)]
    assert encode_unchecked({"a": Url(URL), "b": URL}) == {"a": UrlReference(URL), "b": URL}
    assert find_references({"a": FileId(FILE), "b": FILE}) == {"a": FILE}
    assert encode_unchecked({"a": FileId(FILE)}) == {"a": FileReference(FILE)}
    assert "must be the whole input" in refuse(make_model(tensor("BYTES")), x=[Url(URL)])[0]


def test_a_single_value_goes_to_the_only_input() -> None:
    assert find_only_input(make_model(tensor("FP32"), tensor("FP32", optional=True, name="y"))) == "x"
    with pytest.raises(InvalidInput, match="pass a dictionary"):
        find_only_input(make_model(tensor("FP32"), tensor("FP32", name="y")))


def make_loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def make_deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    return deep


@pytest.mark.parametrize("make", [make_loop, make_deep])
def test_lists_that_are_nested_too_deep_are_refused(make: Callable[[], list[Any]]) -> None:
    assert not has_files(make())
    assert "deeper than 16 levels" in refuse(make_model(tensor("FP32")), x=make())[0]
    for call in (lambda: encode_unchecked({"x": make()}), lambda: read_files({"x": make()}, MIB)):
        with pytest.raises(InvalidInput, match="/inputs/x: lists are nested deeper"):
            call()  # type: ignore[no-untyped-call]


def test_a_closed_file_is_refused() -> None:
    file = io.BytesIO(b"x")
    file.close()
    assert find_large({"x": file}, 1) == {}
    with pytest.raises(InvalidInput, match="/inputs/x: the file is closed; open it again"):
        read_files({"x": file}, MIB)


def test_a_masked_array_is_refused() -> None:
    masked = np.ma.MaskedArray([1.0, 2.0], mask=[True, False])
    assert "masked array" in refuse(make_model(tensor("FP32")), x=masked)[0]
    with pytest.raises(InvalidInput, match="masked array"):
        encode_unchecked({"x": masked})


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="/inputs/1: the model has no input 1; it has 'x'"):
        encode_inputs(make_model(tensor("FP32", optional=True)), {1: 2.0})  # type: ignore[dict-item]


class TensorOnGPU:
    def __array__(self, *_args: Any, **_named: Any) -> None:
        raise TypeError("use tensor.cpu() first")


def test_an_array_that_numpy_cannot_read_is_refused() -> None:
    text = "/inputs/x: is TensorOnGPU, which NumPy does not take for an array: use tensor.cpu() first"
    assert refuse(make_model(tensor("FP32")), x=TensorOnGPU()) == [text]


def test_a_file_may_have_a_shape() -> None:
    value = {"file": FILE, "datatype": "FP32", "shape": [2, 3]}
    (found,) = encode_inputs(make_model(tensor("FP32", [-1, 3]), max_batch_size=4), {"x": value})
    assert (found.shape, found.data) == ([2, 3], FileReference(FILE))
