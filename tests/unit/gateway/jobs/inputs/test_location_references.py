"""Inputs in buckets: what they become, and the message and the field of each mistake."""

from typing import Any

import pytest

from common.locations.location import Location
from common.tensors import Datatype, ObjectContent, Signature, Tensor
from services.gateway.jobs.inputs.npy import NpyHeader
from services.gateway.jobs.inputs.references import KnownFile, KnownFiles, find_sources
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.inputs.validation import ONLY_FILES, read_inputs

URL, LOCATION = "s3://bucket/in/x", Location("bucket", "in/x")
LIMIT = 1_000_000
NUMBERS = Signature("x", Datatype.FP32, [-1, 3])
WORD = Signature("x", Datatype.BYTES, [1])
NPY = NpyHeader(Datatype.FP32, [2, 3], 128)


def read(inputs: Any, signature: Signature, found: KnownFile | str) -> tuple[list[Tensor], list[tuple[str, str]]]:
    files = KnownFiles({}, LIMIT, objects={LOCATION: found})
    tensors, errors = read_inputs(inputs, [signature], 0, files)
    return tensors, [(error.pointer, error.detail) for error in errors]


def listed(data: Any, datatype: Datatype = Datatype.FP32, shape: list[int] | None = None) -> list[InputTensor]:
    return [InputTensor("x", [2, 3] if shape is None else shape, datatype, data)]


@pytest.mark.parametrize(
    ("inputs", "signature", "found", "shape", "offset"),
    [
        ({"x": {"url": URL}}, WORD, KnownFile(77), [1], 0),
        ({"x": {"url": URL}}, NUMBERS, KnownFile(24), [2, 3], 0),
        ({"x": {"url": URL}}, NUMBERS, KnownFile(152, NPY), [2, 3], 128),
        ({"x": {"url": URL, "shape": [2, 3], "datatype": "FP32"}}, NUMBERS, KnownFile(24), [2, 3], 0),
        (listed({"url": URL}), NUMBERS, KnownFile(24), [2, 3], 0),
        (listed({"url": URL}, Datatype.BYTES, [1]), WORD, KnownFile(5), [1], 0),
    ],
)
def test_an_object_becomes_a_tensor(
    inputs: Any, signature: Signature, found: KnownFile, shape: list[int], offset: int
) -> None:
    content = ObjectContent("bucket", "in/x", offset, found.size - offset)
    assert read(inputs, signature, found) == ([Tensor("x", signature.datatype, shape, content)], [])


@pytest.mark.parametrize(
    ("inputs", "signature", "found", "pointer", "detail"),
    [
        ({"x": {"url": URL}}, WORD, "it is away", "/inputs/x/url", "s3://bucket/in/x cannot be used: it is away"),
        (listed({"url": URL}), NUMBERS, "it is away", "/inputs/0/data/url", "it is away"),
        ({"x": {"url": "s3://bucket/a//b"}}, WORD, "", "/inputs/x/url", "empty parts"),
        ({"x": {"url": URL}}, WORD, KnownFile(LIMIT + 1), "/inputs/x/url", "CHARONIA_MAX_TENSOR_BYTES"),
        ({"x": {"url": URL, "shape": [2, 3]}}, NUMBERS, KnownFile(25), "/inputs/x/url", "needs 24 bytes"),
        ({"x": {"url": URL}}, NUMBERS, KnownFile(150, NPY), "/inputs/x/url", "22 bytes of elements"),
        ({"x": {"url": URL, "datatype": "INT8"}}, NUMBERS, KnownFile(24), "/inputs/x/datatype", "expected FP32"),
        ({"x": {"url": URL, "file": "x"}}, WORD, KnownFile(1), "/inputs/x/url", "beside `file` may be"),
        (listed({"url": URL, "shape": [2]}), NUMBERS, KnownFile(24), "/inputs/0/data/shape", "beside `data`"),
        ({"x": {"url": URL}}, Signature("x", Datatype.BYTES, [1], False, True), KnownFile(1), "/inputs/x", ONLY_FILES),
    ],
)
def test_a_mistake_names_its_field(
    inputs: Any, signature: Signature, found: KnownFile | str, pointer: str, detail: str
) -> None:
    _, ((place, text),) = read(inputs, signature, found)
    assert (place, detail in text) == (pointer, True), text


def test_the_objects_of_declared_inputs_are_looked_up() -> None:
    declared = [Signature("x", Datatype.FP32, [-1]), Signature("y", Datatype.BYTES, [1])]
    assert find_sources({"x": {"url": URL}, "y": {"url": URL}}, declared) == {LOCATION: True}
    assert find_sources(listed({"url": URL}), declared) == {LOCATION: False}
    for other in ({"z": {"url": URL}}, {"y": {"url": "https://a.example/"}}, {"y": {"url": "s3://b/a//b"}}):
        assert find_sources(other, declared) == {}
