"""Inputs that refer to files: what they become, and the message and the field of each mistake."""

from typing import Any

import pytest

from common import ids
from common.tensors import Datatype, FileContent, Signature, Tensor
from services.gateway.jobs.inputs.npy import NpyHeader
from services.gateway.jobs.inputs.references import KnownFile, KnownFiles, find_sources
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.inputs.validation import read_inputs

FILE, OTHER = ids.new(), ids.new()
NAME = ids.encode(ids.Kind.FILE, FILE)
LIMIT = 1_000_000
NUMBERS = Signature("x", Datatype.FP32, [-1, 3])
MATRIX = Signature("x", Datatype.FP32, [-1, -1])
WORD = Signature("x", Datatype.BYTES, [1])
REFERENCE = Signature("x", Datatype.BYTES, [1], reference=True)
NPY = NpyHeader(Datatype.FP32, [2, 3], 128)


def read(
    inputs: Any, signature: Signature, size: int, npy: NpyHeader | str | None = None, batch: int = 0
) -> tuple[list[Tensor], list[tuple[str, str]]]:
    files = KnownFiles({FILE: KnownFile(size, npy)}, LIMIT)
    found, errors = read_inputs(inputs, [signature], batch, files)
    return found, [(error.pointer, error.detail) for error in errors]


def listed(data: Any, datatype: Datatype = Datatype.FP32, shape: list[int] | None = None) -> list[InputTensor]:
    return [InputTensor("x", [2, 3] if shape is None else shape, datatype, data)]


@pytest.mark.parametrize(
    ("inputs", "signature", "npy", "size", "batch", "shape", "offset"),
    [
        ({"x": {"file": NAME}}, WORD, None, 77, 0, [1], 0),
        ({"x": {"file": NAME}}, Signature("x", Datatype.BYTES, [-1, 1]), None, 0, 4, [1, 1], 0),
        ({"x": {"file": NAME, "datatype": "BYTES", "shape": [1]}}, WORD, None, 77, 0, [1], 0),
        (listed({"file": NAME}, Datatype.BYTES, [1]), WORD, None, 77, 0, [1], 0),
        ({"x": {"file": NAME}}, NUMBERS, None, 24, 0, [2, 3], 0),
        ({"x": {"file": NAME, "datatype": "FP32"}}, NUMBERS, None, 24, 0, [2, 3], 0),
        ({"x": {"file": NAME, "shape": [6, 1]}}, MATRIX, None, 24, 0, [6, 1], 0),
        ({"x": {"file": NAME, "shape": [3]}}, NUMBERS, None, 12, 8, [1, 3], 0),
        (listed({"file": NAME}), NUMBERS, None, 24, 0, [2, 3], 0),
        ({"x": {"file": NAME}}, NUMBERS, NPY, 152, 0, [2, 3], 128),
        ({"x": {"file": NAME}}, MATRIX, NPY, 152, 8, [2, 3], 128),
        ({"x": {"file": NAME}}, NUMBERS, NpyHeader(Datatype.FP32, [3], 128), 140, 8, [1, 3], 128),
        ({"x": {"file": NAME}}, WORD, None, LIMIT, 0, [1], 0),
    ],
)
def test_a_file_becomes_a_tensor(
    inputs: Any,
    signature: Signature,
    npy: NpyHeader | None,
    size: int,
    batch: int,
    shape: list[int],
    offset: int,
) -> None:
    content = FileContent(FILE, offset, size - offset)
    assert read(inputs, signature, size, npy, batch) == ([Tensor("x", signature.datatype, shape, content)], [])


@pytest.mark.parametrize("inputs", [{"x": {"file": NAME}}, listed({"file": NAME}, Datatype.BYTES, [1])])
def test_a_model_that_reads_the_file_itself_takes_any_size(inputs: Any) -> None:
    content = FileContent(FILE, 0, 1000 * LIMIT, by_reference=True)
    assert read(inputs, REFERENCE, 1000 * LIMIT) == ([Tensor("x", Datatype.BYTES, [1], content)], [])
    assert content.bytes_read == 0


@pytest.mark.parametrize(
    ("inputs", "signature", "size", "pointer", "detail"),
    [
        ({"x": {"file": ids.encode(ids.Kind.FILE, OTHER)}}, WORD, 5, "/inputs/x/file", "file not found"),
        (listed({"file": ids.encode(ids.Kind.FILE, OTHER)}), NUMBERS, 5, "/inputs/0/data/file", "POST /v1/files"),
        ({"x": {"file": "cat.png"}}, WORD, 5, "/inputs/x/file", "expected the id of a file"),
        ({"x": {"file": 7}}, WORD, 5, "/inputs/x/file", "expected the id of a file, got 7"),
        (listed({"file": "job_1"}), NUMBERS, 5, "/inputs/0/data/file", "expected the id of a file"),
        ({"x": {"file": NAME}}, WORD, LIMIT + 1, "/inputs/x/file", f"may have {LIMIT} (CHARONIA_MAX_TENSOR_BYTES)"),
        ({"x": {"file": NAME, "dtype": "FP32"}}, NUMBERS, 24, "/inputs/x/dtype", "datatype and shape"),
        (listed({"file": NAME, "shape": [2, 3]}), NUMBERS, 24, "/inputs/0/data/shape", "belongs beside `data`"),
        ({"x": {"file": NAME, "datatype": "FLOAT"}}, NUMBERS, 24, "/inputs/x/datatype", "expected one of BOOL, UINT8"),
        ({"x": {"file": NAME, "datatype": "INT32"}}, NUMBERS, 24, "/inputs/x/datatype", "expected FP32, got INT32"),
        ({"x": {"file": NAME, "shape": [-1, 3]}}, NUMBERS, 24, "/inputs/x/shape", "whole numbers from 0"),
        ({"x": {"file": NAME, "shape": [2, 4]}}, NUMBERS, 32, "/inputs/x/shape", "expected shape [-1, 3]"),
        ({"x": {"file": NAME, "shape": [2, 3]}}, NUMBERS, 25, "/inputs/x/file", "needs 24 bytes, the file has 25"),
        (listed({"file": NAME}), NUMBERS, 25, "/inputs/0/data/file", "an .npy file has its own"),
        ({"x": {"file": NAME}}, NUMBERS, 25, "/inputs/x", "25 bytes do not fit FP32 of shape [-1, 3]"),
        ({"x": {"file": NAME}}, MATRIX, 24, "/inputs/x", "give its shape beside the file"),
        ({"x": {"file": NAME}}, Signature("x", Datatype.BYTES, [2]), 5, "/inputs/x/shape", "expected shape [2]"),
        (
            listed({"file": NAME}, Datatype.BYTES, [2]),
            Signature("x", Datatype.BYTES, [-1]),
            5,
            "/inputs/0/shape",
            "a whole file is one element, but shape [2] needs 2",
        ),
        ({"x": "https://example.com/a.flac"}, REFERENCE, 5, "/inputs/x", "a reference to a file here, not data"),
        ({"x": {"base64": "AA=="}}, REFERENCE, 5, "/inputs/x", "upload it with POST /v1/files"),
        (listed(["text"], Datatype.BYTES, [1]), REFERENCE, 5, "/inputs/0/data", 'send {"file": "file_…"}'),
        (listed(bytes(4), Datatype.BYTES, [1]), REFERENCE, 5, "/inputs/0/data", 'send {"file": "file_…"}'),
        ({"x": [{"file": NAME}]}, WORD, 5, "/inputs/x", "element 0 is an object; a file stands for a whole input"),
    ],
)
def test_a_mistake_names_its_field(inputs: Any, signature: Signature, size: int, pointer: str, detail: str) -> None:
    _, ((found, text),) = read(inputs, signature, size)
    assert (found, detail in text) == (pointer, True), text


@pytest.mark.parametrize(
    ("npy", "size", "detail"),
    [
        ("its array is in Fortran order", 152, "the .npy file cannot be used: its array is in Fortran order"),
        (NpyHeader(Datatype.FP64, [2, 3], 128), 176, "has FP64, the model expects FP32"),
        (NpyHeader(Datatype.FP32, [2, 4], 128), 160, "does not fit: expected shape [-1, 3]"),
        (NPY, 150, "has 22 bytes of elements, but shape [2, 3] needs 24"),
    ],
)
def test_an_npy_file_that_does_not_fit_is_explained(npy: NpyHeader | str, size: int, detail: str) -> None:
    _, ((pointer, text),) = read({"x": {"file": NAME}}, NUMBERS, size, npy)
    assert (pointer, detail in text) == ("/inputs/x/file", True), text


def test_the_files_of_declared_inputs_are_looked_up() -> None:
    declared = [Signature("x", Datatype.FP32, [-1]), Signature("y", Datatype.BYTES, [1])]
    assert find_sources({"x": {"file": NAME}, "y": {"file": NAME}}, declared) == {FILE: True}
    assert find_sources({"x": {"file": NAME, "shape": [3]}}, declared) == {FILE: False}
    assert find_sources({"y": {"file": NAME}}, declared) == {FILE: False}
    assert find_sources(listed({"file": NAME}), declared) == {FILE: False}
    for other in ({"z": {"file": NAME}}, {"x": [1.0], "y": "file"}, {"x": {"file": 7}}, listed([1.0]), {}):
        assert find_sources(other, declared) == {}
