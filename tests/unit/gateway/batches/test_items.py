"""Splitting bodies into items."""

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.batches.items import Items, list_items, split_lines, split_list
from services.gateway.http.limits.body_limits import LEASE, BodyBudget, BodyDeadlines, BodyLease
from services.gateway.http.problems import Problem
from services.gateway.http.worker_processes import LARGE
from tests.unit.gateway.parsing import LENGTHS, FakeWorkers

LONGEST = 1000
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


async def split(body: bytes, size: int, longest: int = LONGEST) -> list[bytes]:
    """Split a body that arrives in pieces of `size` bytes."""

    async def arrive() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    return [line async for line in split_lines(arrive(), longest)]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
async def test_lines_are_complete_however_they_arrive(size: int) -> None:
    body = b'{"a": 1}\r\n\n  \n{"b": "\xc3\xa4"}\n{"c":\t3}'
    assert await split(body, size) == [b'{"a": 1}', b'{"b": "\xc3\xa4"}', b'{"c":\t3}']
    assert await split(b"", size) == await split(b"\n\n", size) == []


async def test_the_line_limit_applies_before_the_line_is_complete() -> None:
    assert await split(b"x" * LONGEST + b"\n" + b"y" * LONGEST, 7) == [b"x" * LONGEST, b"y" * LONGEST]
    with pytest.raises(Problem) as refused:
        await split(b"ok\n" + b"x" * (LONGEST + 1), 100)
    assert refused.value.status == 413


@given(st.lists(VALUES, max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_a_list_is_split_into_its_elements(values: list[object], indent: int | None, ascii_only: bool) -> None:
    body = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode(errors="replace")
    assert [json.loads(item) for item in split_list(b" \n" + body + b"\t ")] == json.loads(body)


def test_a_list_may_begin_with_a_byte_order_mark() -> None:
    assert list(split_list(b"\xef\xbb\xbf [1, 2]")) == ["1", "2"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"[",
        b"[1",
        b"[1,",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"[1]]",
        b"[1] 2",
        b'["a]',
        b"[1}",
        b"{",
        b"[\xff]",
        b"[" * 100_000,
    ],
)
def test_invalid_json_is_refused(body: bytes) -> None:
    with pytest.raises(Problem) as refused:
        list(split_list(body))
    assert refused.value.status == 400


@pytest.mark.parametrize("body", [b"{}", b"1", b'"[]"', b"null"])
def test_anything_but_a_list_is_refused(body: bytes) -> None:
    with pytest.raises(Problem) as refused:
        list(split_list(body))
    assert refused.value.status == 422


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"a": 1}\n{"b": "', "line 2, column 1"),
        (b' {"a": 1} {}', "line 1, column 11"),
        (b"{}\r\n\n {}", "line 3, column 2"),
    ],
)
def test_lines_sent_as_a_list_are_told_their_type(body: bytes, place: str) -> None:
    with pytest.raises(Problem) as refused:
        list(split_list(body))
    assert (refused.value.status, refused.value.code) == (400, "malformed_json")
    for text in (place, "application/x-ndjson", "--data-binary @FILE"):
        assert text in refused.value.detail


def test_elements_before_an_error_are_yielded() -> None:
    items = split_list(b'[{"a": 1}, 2, x]')
    assert [next(items), next(items)] == ['{"a": 1}', "2"]
    with pytest.raises(Problem):
        next(items)


@pytest.mark.parametrize("size", LENGTHS)
async def test_a_large_list_is_split_by_a_worker(workers: FakeWorkers, size: str) -> None:
    body = b"[" + b"0," * LENGTHS[size] + b"0]"
    items = [item async for item in Items(cast(Any, Arriving(body)), 10 * LARGE, workers)]
    assert items[:10] == ["0"] * 10
    assert workers.ran == ([list_items] if size == "large" else [])


class Arriving:
    """A request with this body."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.headers = {"content-type": "application/json"}
        self.scope = {LEASE: BodyLease(BodyBudget(200 * LARGE), BodyDeadlines())}

    async def stream(self) -> AsyncIterator[bytes]:
        yield self.body
