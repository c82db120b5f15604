"""Inputs that dispatchers fetch: what they become, and the message and the field of each mistake."""

from typing import Any

import pytest

from common.security.ssrf import AddressPolicy
from common.tensors import Datatype, Signature, Tensor, UrlContent
from services.gateway.jobs.inputs.references import KnownFiles
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.inputs.validation import read_inputs

URL = "https://example.com/cat.png?signature=secret"
LIMIT = 1_000_000
NUMBERS = Signature("x", Datatype.FP32, [-1, 3])
WORD = Signature("x", Datatype.BYTES, [1])
WORDS = Signature("x", Datatype.BYTES, [-1])


def read(inputs: Any, signature: Signature, batch: int = 0) -> tuple[list[Tensor], list[tuple[str, str]]]:
    found, errors = read_inputs(inputs, [signature], batch, KnownFiles({}, LIMIT, AddressPolicy()))
    return found, [(error.pointer, error.detail) for error in errors]


def listed(data: Any, datatype: Datatype = Datatype.FP32, shape: list[int] | None = None) -> list[InputTensor]:
    return [InputTensor("x", [2, 3] if shape is None else shape, datatype, data)]


@pytest.mark.parametrize(
    ("inputs", "signature", "batch", "shape"),
    [
        ({"x": {"url": URL}}, WORD, 0, [1]),
        ({"x": {"url": URL, "datatype": "BYTES", "shape": [1]}}, WORD, 0, [1]),
        ({"x": {"url": URL}}, Signature("x", Datatype.BYTES, [-1, 1]), 4, [1, 1]),
        (listed({"url": URL}, Datatype.BYTES, [1]), WORD, 0, [1]),
        ({"x": {"url": URL, "shape": [2, 3]}}, NUMBERS, 0, [2, 3]),
        ({"x": {"url": URL, "shape": [3], "datatype": "FP32"}}, NUMBERS, 8, [1, 3]),
        ({"x": {"url": URL, "shape": [0, 3]}}, NUMBERS, 0, [0, 3]),
        (listed({"url": URL}), NUMBERS, 0, [2, 3]),
    ],
)
def test_a_url_becomes_a_tensor(inputs: Any, signature: Signature, batch: int, shape: list[int]) -> None:
    assert read(inputs, signature, batch) == ([Tensor("x", signature.datatype, shape, UrlContent(URL))], [])


@pytest.mark.parametrize(
    ("inputs", "signature", "pointer", "detail"),
    [
        ({"x": {"url": 7}}, WORD, "/inputs/x/url", "expected a URL such as https://example.com/cat.png, got 7"),
        ({"x": {"url": "cat.png"}}, WORD, "/inputs/x/url", "must start with https://"),
        ({"x": {"url": "http://example.com/"}}, WORD, "/inputs/x/url", "must start with https://"),
        ({"x": {"url": "https://10.0.0.1/"}}, WORD, "/inputs/x/url", "requests to 10.0.0.1 are not allowed"),
        ({"x": {"url": "https://me:pass@a.example/"}}, WORD, "/inputs/x/url", "signed URL"),
        ({"x": {"url": URL + "x" * 8000}}, WORD, "/inputs/x/url", "at most 8000 characters"),
        (listed({"url": "https://127.0.0.1/"}), NUMBERS, "/inputs/0/data/url", "loopback"),
        ({"x": {"url": URL, "file": "file_1"}}, WORD, "/inputs/x/url", "beside `file` may be datatype and shape"),
        ({"x": {"url": URL, "dtype": "FP32"}}, WORD, "/inputs/x/dtype", "beside `url` may be datatype and shape"),
        (listed({"url": URL, "shape": [2, 3]}), NUMBERS, "/inputs/0/data/shape", "belongs beside `data`"),
        ({"x": {"url": URL, "datatype": "INT8"}}, NUMBERS, "/inputs/x/datatype", "expected FP32, got INT8"),
        ({"x": {"url": URL}}, NUMBERS, "/inputs/x/shape", "is missing"),
        ({"x": {"url": URL, "shape": [2, 4]}}, NUMBERS, "/inputs/x/shape", "expected shape [-1, 3]"),
        ({"x": {"url": URL, "shape": [100_000, 3]}}, NUMBERS, "/inputs/x/shape", "a tensor may have 1000000"),
        (listed({"url": URL}, Datatype.FP32, [100_000, 3]), NUMBERS, "/inputs/0/shape", "has 1200000 bytes"),
        ({"x": {"url": URL, "shape": [2]}}, WORDS, "/inputs/x/shape", "is one element, but shape [2] needs 2"),
        ({"x": [{"url": URL}]}, WORD, "/inputs/x", "element 0 is an object; a URL stands for a whole input"),
    ],
)
def test_a_mistake_names_its_field(inputs: Any, signature: Signature, pointer: str, detail: str) -> None:
    _, ((found, text),) = read(inputs, signature)
    assert (found, detail in text, "secret" in text) == (pointer, True, False), text
