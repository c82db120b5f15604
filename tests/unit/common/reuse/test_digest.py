"""Keys: the same bytes in any form have one key, and anything else that a model could see has another."""

import hashlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common import ids
from common.reuse.digest import Question, make_key
from common.tensors import Datatype, FileContent, ObjectContent, Tensor, UrlContent

TENANT = ids.new()
QUESTION = Question(TENANT, "echo", None, None, is_step=False, parameters={"a": 1, "b": 2})
NUMBERS = Tensor("x", Datatype.FP32, [1, 2], struct.pack("<2f", 1, 2))
FILE = ids.new()


def key(*inputs: Tensor, files: dict[Any, bytes] | None = None, **changes: Any) -> bytes:
    found = make_key(QUESTION._replace(**changes), inputs or (NUMBERS,), files or {})
    assert found is not None
    assert len(found) == 32
    return found


def text(data: bytes) -> Tensor:
    return Tensor("t", Datatype.BYTES, [1], struct.pack("<I", len(data)) + data)


def in_file(tensor: Tensor, size: int, **changes: Any) -> Tensor:
    return Tensor(
        tensor.name, tensor.datatype, tensor.shape, FileContent(FILE, changes.pop("offset", 0), size, **changes)
    )


@given(st.binary(max_size=100))
def test_a_text_has_the_key_of_a_file_with_it(data: bytes) -> None:
    files = {FILE: hashlib.sha256(data).digest()}
    assert key(text(data)) == key(in_file(text(data), len(data)), files=files)


def test_numbers_have_the_key_of_a_file_with_them() -> None:
    assert isinstance(NUMBERS.data, bytes)
    files = {FILE: hashlib.sha256(NUMBERS.data).digest()}
    assert key() == key(in_file(NUMBERS, 8), files=files)
    assert key() != key(in_file(NUMBERS, 8, offset=128), files=files)


def test_the_order_of_inputs_and_parameters_does_not_matter() -> None:
    assert key(NUMBERS, text(b"a")) == key(text(b"a"), NUMBERS)
    assert key(parameters={"b": 2, "a": 1}) == key()
    assert key(parameters={}) == key(parameters=None)


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant_id": ids.new()},
        {"model": "other"},
        {"version": "1"},
        {"fallback_model": "small"},
        {"is_step": True},
        {"parameters": {"a": 1}},
        {"parameters": {"a": 1, "b": 2.0}},
        {"parameters": {"a": True, "b": 2}},
        {"parameters": {"a": "1", "b": 2}},
        {"parameters": {"a": 2, "b": 1}},
    ],
)
def test_another_question_has_another_key(changes: dict[str, Any]) -> None:
    assert key(**changes) != key()


@pytest.mark.parametrize(
    "other",
    [
        Tensor("y", Datatype.FP32, [1, 2], NUMBERS.data),
        Tensor("x", Datatype.INT32, [1, 2], NUMBERS.data),
        Tensor("x", Datatype.FP32, [2, 1], NUMBERS.data),
        Tensor("x", Datatype.FP32, [2], NUMBERS.data),
        Tensor("x", Datatype.FP32, [1, 2], struct.pack("<2f", 1, 3)),
        Tensor("x", Datatype.FP32, [1, 2], struct.pack("<2f", 2, 1)),
        Tensor("x", Datatype.BYTES, [1, 2], NUMBERS.data),
    ],
)
def test_another_input_has_another_key(other: Tensor) -> None:
    assert key(other) != key()


def test_a_reference_differs_from_its_content() -> None:
    files = {FILE: hashlib.sha256(b"cat").digest()}
    assert key(in_file(text(b"cat"), 3, by_reference=True), files=files) != key(text(b"cat"))


def test_an_element_differs_from_bytes_with_a_length_in_a_file() -> None:
    packed = text(b"cat").data
    assert isinstance(packed, bytes)
    files = {FILE: hashlib.sha256(packed).digest()}
    stored = in_file(text(b"cat"), len(packed), inline=True)  # the element `cat`
    client_file = in_file(text(b"cat"), len(packed))  # an element that begins with a length
    assert key(stored, files=files) != key(client_file, files=files)


@given(st.lists(st.binary(max_size=5), min_size=2, max_size=4), st.lists(st.binary(max_size=5), min_size=2, max_size=4))
def test_texts_do_not_run_into_each_other(first: list[bytes], second: list[bytes]) -> None:
    def pack(elements: list[bytes]) -> Tensor:
        return Tensor("t", Datatype.BYTES, [len(elements)], b"".join(struct.pack("<I", len(e)) + e for e in elements))

    assert (key(pack(first)) == key(pack(second))) == (first == second)


@pytest.mark.parametrize(
    "content",
    [UrlContent("https://example.com/"), ObjectContent("bucket", "key", 0, 3), FileContent(ids.new(), 0, 3)],
)
def test_what_nobody_hashed_has_no_key(content: Any) -> None:
    assert make_key(QUESTION, [NUMBERS, Tensor("t", Datatype.BYTES, [1], content)], {FILE: bytes(32)}) is None
