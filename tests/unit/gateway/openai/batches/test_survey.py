"""What a file is found to be before its lines become jobs."""

import json

import pytest

from services.gateway.openai.batches import survey as module
from services.gateway.openai.batches.record import BatchError, has_bit, set_bit
from services.gateway.openai.batches.source import split_page
from services.gateway.openai.batches.survey import Found, Survey


def survey(*pages: bytes) -> Found:
    lines = Survey()
    for content in pages:
        page = split_page(content, 0, is_last=True)
        for line in page.lines:
            lines.add(line)
        lines.turn_page(page.rows)
        if lines.is_full:
            break
    return lines.end()


def named(*names: object) -> bytes:
    return b"".join(json.dumps({"custom_id": name}).encode() + b"\n" for name in names)


def list_bits(found: Found) -> list[int]:
    return [index for index in range(found.lines) if has_bit(found.duplicates, index)]


def test_lines_are_counted_and_later_ones_with_a_known_name_are_marked() -> None:
    found = survey(named("a", "b", "a"), b"\n" + named("c", "b", 1, 1, None, "a"))
    assert (found.lines, list_bits(found), found.errors) == (9, [2, 4, 8], [])


def test_one_json_object_among_other_lines_is_enough() -> None:
    found = survey(b"no\n" * 20 + b"{}\n")
    assert (found.lines, found.errors) == (21, [])


@pytest.mark.parametrize(
    ("content", "code", "lines"),
    [
        (b"", "empty_file", [None]),
        (b"\r\n \n", "empty_file", [None]),
        (b"\n[1]\n\nx", "invalid_json_line", [2, 4]),
        (b"\xff\xfe\n", "invalid_json_line", [1]),
        (b"[" * 100_000, "invalid_json_line", [1]),
        (b"1\n" * 30, "invalid_json_line", list(range(1, 11))),
    ],
)
def test_a_file_without_a_json_object_says_why(content: bytes, code: str, lines: list[int | None]) -> None:
    errors = survey(content).errors
    assert [(error.code, error.line) for error in errors] == [(code, line) for line in lines]


def test_numbers_of_lines_go_on_from_page_to_page() -> None:
    assert [error.line for error in survey(b"\nx\n", b"\n\ny\n").errors] == [2, 5]


def test_a_byte_order_mark_is_ignored() -> None:
    assert survey(b"\xef\xbb\xbf" + named("a")).errors == []


def test_too_many_lines_fail_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINES", 3)
    assert survey(named(*"abc")).errors == []
    (error,) = survey(named(*"abcd")).errors
    assert isinstance(error, BatchError)
    assert (error.code, error.line) == ("too_many_tasks", None)
    (error,) = survey(b"\n" * 31, named("a")).errors
    assert error.code == "too_many_tasks"


def test_bits_are_set_anywhere() -> None:
    bits = bytearray()
    for index in (0, 7, 8, 1000):
        set_bit(bits, index)
    assert [index for index in range(1200) if has_bit(bytes(bits), index)] == [0, 7, 8, 1000]
    assert not has_bit(b"", 5)
