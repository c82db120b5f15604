"""Defaults and names of a batch's items."""

from typing import cast

import msgspec
import pytest

from services.gateway.batches.parse import (
    MAX_DEFAULTS,
    add_defaults,
    decode_item,
    parse_defaults,
    parse_item,
    read_custom_id,
)
from services.gateway.http.problems import Problem
from services.gateway.jobs.parse import SubmitContext

DEFAULTS = b'{"model":"m","webhook":{"url":"https://a"},"priority":"low"}'


@pytest.mark.parametrize(
    ("item", "changed"),
    [
        (b"{}", {}),
        ('{"inputs": {"x": "ä"}}', {"inputs": {"x": "ä"}}),
        (b'{"priority": "high", "webhook": null}', {"priority": "high", "webhook": None}),
        (b'\xef\xbb\xbf{"webhook": {}}', {"webhook": {}}),
    ],
)
def test_a_field_of_an_item_replaces_the_default_as_a_whole(item: bytes | str, changed: dict[str, object]) -> None:
    assert msgspec.json.decode(add_defaults(item, DEFAULTS)) == msgspec.json.decode(DEFAULTS) | changed


@pytest.mark.parametrize(("item", "status"), [(b"1", 422), (b"[]", 422), (b"{", 400), (b"\xff", 400)])
def test_an_item_that_is_no_object_is_refused(item: bytes, status: int) -> None:
    with pytest.raises(Problem) as refused:
        add_defaults(item, DEFAULTS)
    assert refused.value.status == status


@pytest.mark.parametrize("defaults", [None, DEFAULTS, b'{"model": "long"}'])
@pytest.mark.parametrize(
    ("item", "detail"),
    [
        (b'{"inputs": "\xff"}', "the item is not JSON: byte 12 is not UTF-8"),
        (b'{"inputs": [1,]}', "the item is not JSON: line 1, column 15"),
        (b'{"inputs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "the item is not JSON that can be read"),
        (b"[]", "the item must be an object"),
    ],
    ids=["text", "list", "depth", "no object"],
)
def test_a_mistake_is_shown_at_its_place_in_the_item(item: bytes | str, detail: str, defaults: bytes | None) -> None:
    with pytest.raises(Problem) as refused:
        decode_item(item, defaults)
    assert refused.value.detail.startswith(detail)


@pytest.mark.parametrize(
    "item", [b'{"model": "a"}{"model": "b"}', b'\xef\xbb\xbf{"model": "a"} {', b'{"model": "a"}\r{"mo']
)
@pytest.mark.parametrize("defaults", [None, DEFAULTS])
def test_two_jobs_in_a_line_name_what_curl_did(item: bytes, defaults: bytes | None) -> None:
    with pytest.raises(Problem) as refused:
        parse_item(item, defaults, cast(SubmitContext, None))
    assert (refused.value.status, refused.value.code) == (400, "malformed_json")
    assert "a second job begins in column 1" in refused.value.detail
    assert "--data-binary @FILE" in refused.value.detail


@pytest.mark.parametrize("line", [b'{"model": "m"}', "{}", b"1", b"{", b"\xff", b"[" * 100_000])
def test_a_first_line_without_defaults_is_a_job(line: bytes | str) -> None:
    assert parse_defaults(line) is None


def test_defaults_are_read_from_the_first_line() -> None:
    for line in (b'{"defaults": ' + DEFAULTS + b"}", b'\xef\xbb\xbf{"defaults":' + DEFAULTS + b"}"):
        assert parse_defaults(line) == DEFAULTS
    assert parse_defaults('{"defaults": {}}') == b"{}"
    largest = b'{"metadata": {"a": "%b"}}' % (b"x" * (MAX_DEFAULTS - len(b'{"metadata": {"a": ""}}')))
    assert parse_defaults(b'{"defaults": %b}' % largest) == largest


@pytest.mark.parametrize(
    ("line", "pointer"),
    [
        (b'{"defaults": {"inputs": {}}}', "/defaults/inputs"),
        (b'{"defaults": null}', "/defaults"),
        (b'{"defaults": {}, "model": "m"}', "/model"),
        (b'{"defaults": {"metadata": {"a": "%b"}}}' % (b"x" * MAX_DEFAULTS), "/defaults"),
    ],
)
def test_wrong_defaults_are_refused(line: bytes, pointer: str) -> None:
    with pytest.raises(Problem) as refused:
        parse_defaults(line)
    assert (refused.value.status, [error.pointer for error in refused.value.errors]) == (422, [pointer])


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (b'{"custom_id": "a", "inptus": 1}', "a"),
        ('{"custom_id": "a"}', "a"),
        (b"{}", None),
        (b'{"custom_id": 1}', None),
        (b'{"custom_id": ""}', None),
        (b'{"custom_id": "a\\u0000"}', None),
        (b'{"custom_id": "a"', None),
        (b"1", None),
        (b"\xff", None),
    ],
)
def test_the_name_of_a_refused_item_is_read_if_it_is_valid(item: bytes | str, name: str | None) -> None:
    assert read_custom_id(item) == name
