"""`charonia batch` reads and writes its files: items, the journal, results, and what a refusal means."""

import contextlib
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from charonia.cli.arguments import InvalidArgument
from charonia.cli.batch.items import InvalidItem, find_files, make_digest, parse_item, read_lines
from charonia.cli.batch.refusals import assign
from charonia.cli.batch.results import ResultFile, make_refusal
from charonia.cli.batch.run import LONGEST_PAUSE, choose_pause
from charonia.errors import ConnectionFailed, InvalidRequest, RateLimited, ResumeError, TooLarge
from charonia.journal import Journal, open_journal
from charonia.journal_records import Beginning, Dropped, Planned, Submitted
from charonia.schemas import Failure, FieldProblem

BEGINNING = Beginning("echo", "http://localhost", {})
FAILURE = Failure("invalid_input", "wrong")


class Later(msgspec.Struct, tag="later", tag_field="is"):
    """A record of a later version."""

    batch: str


def make_planned(first: int) -> Planned:
    return Planned(first, 2, "digest", f"key{first}", datetime(2026, 1, 1, tzinfo=UTC), 0, 10)


def test_lines_are_found_with_their_places() -> None:
    file = io.BytesIO(b"\xef\xbb\xbf1\r\n\n  \n22\n" + b"3" * 30 + b"\n4")
    lines = list(read_lines(file, longest=10))
    assert lines == [(b"1", 6), (b"22", 13), (None, 44), (b"4", 45)]
    assert list(read_lines(file, start=13, longest=10)) == lines[2:]
    assert make_digest(file, 6, 13) == make_digest(io.BytesIO(b"\n  \n22\n"), 0, 7)


@pytest.mark.parametrize(
    ("text", "inputs", "custom_id"),
    [
        (b"1", 1, None),
        (b'{"x": [1]}', {"x": [1]}, None),
        (b'{"inputs": [1]}', {"inputs": [1]}, None),
        (b'{"inputs": {"x": "@@a"}, "custom_id": "a"}', {"x": "@a"}, "a"),
        (b'{"custom_id": "a"}', {"custom_id": "a"}, None),
    ],
)
def test_an_item_has_inputs_and_perhaps_a_name(text: bytes, inputs: object, custom_id: str | None) -> None:
    assert parse_item(text, Path()) == (inputs, custom_id)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, "body_too_large"),
        (b"{", "malformed_json"),
        (b"\xff", "malformed_json"),
        (b"[" * 100_000, "malformed_json"),
        (b'{"inputs": {}, "custom_id": 1}', "invalid_request"),
        (b'{"inputs": {}, "model": "a"}', "invalid_request"),
        (b'"@missing"', "invalid_input"),
        (b'"@' + b"a" * 5000 + b'"', "invalid_input"),
        (b'"@a\\u0000b"', "invalid_input"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_line_that_is_no_item_is_refused(text: bytes | None, code: str) -> None:
    with pytest.raises(InvalidItem) as found:
        parse_item(text, Path())
    assert found.value.failure.code == code


def test_files_are_in_the_folder_of_the_items(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"a")
    assert find_files(["@a.bin", f"@{tmp_path}/a.bin", "@@a", 1], tmp_path) == [tmp_path / "a.bin"] * 2 + ["@a", 1]


def test_the_journal_has_all_chunks_with_their_answers(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "progress")
    assert journal.find_beginning() is None
    submitted = Submitted("batch_1", {1: FAILURE})
    for record in (BEGINNING, make_planned(0), submitted, make_planned(2), Dropped(), make_planned(2)):
        journal.append(record)
    with pytest.raises(ResumeError, match="another run writes to"):
        Journal(tmp_path / "progress")
    journal.close()
    with (tmp_path / "progress").open("a") as file:
        file.write('{"is":"submitted","batch":"bat')
    again = Journal(tmp_path / "progress")
    assert again.find_beginning() == BEGINNING
    assert list(again.list_chunks()) == [(make_planned(0), submitted), (make_planned(2), None)]
    again.append(Submitted(None, {}))
    assert list(again.list_chunks())[1] == (make_planned(2), Submitted(None, {}))
    assert not again.is_stale()
    again.remove()
    assert again.is_stale()
    again.close()


@pytest.mark.parametrize(
    "lines",
    [
        [BEGINNING, make_planned(0), Later("batch_1"), make_planned(2)],
        [msgspec.structs.replace(BEGINNING, format=2), make_planned(0)],
    ],
    ids=["record", "format"],
)
def test_a_journal_of_a_later_version_is_left_as_it_was(tmp_path: Path, lines: list[msgspec.Struct]) -> None:
    """The records after one that cannot be read have items that were submitted, too."""
    path = tmp_path / "progress"
    path.write_bytes(before := b"".join(msgspec.json.encode(each) + b"\n" for each in lines))
    for _ in range(2):
        with contextlib.closing(Journal(path)) as journal, pytest.raises(ResumeError, match="go on with that version"):
            list(journal.list_chunks())
        with pytest.raises(ResumeError, match="go on with that version"), open_journal(path, BEGINNING):
            raise AssertionError
    assert path.read_bytes() == before


def test_results_go_on_after_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "results"
    results = ResultFile(path)
    results.write(make_refusal(2, None, FAILURE))
    results.close()
    with path.open("a") as file:
        file.write('{"index":0,"status":"succeeded"}\n{"index":1,"status":"succ')
    results = ResultFile(path)
    assert list(results.scan(4)) == [1, 0, 1, 0]
    assert (results.written, results.failed) == (2, 1)
    results.write(make_refusal(1, None, FAILURE))
    results.close()
    assert [json.loads(line)["index"] for line in path.read_text().splitlines()] == [2, 0, 1]
    for total in (2, 3):
        with path.open("a") as file:
            file.write('{"index":0,"status":"succeeded"}\n')
        foreign = ResultFile(path)
        with pytest.raises(InvalidArgument, match="not of this run"):
            foreign.scan(total)
        foreign.close()


def refuse(*pointers: str) -> InvalidRequest:
    return InvalidRequest(
        422, "invalid_request", "the request is invalid", [FieldProblem(each, "no") for each in pointers]
    )


def test_a_refused_chunk_is_about_its_items_or_too_large() -> None:
    assert assign(refuse("/0/inputs/x", "/1", "/1/inputs"), 2) == [
        Failure("invalid_request", "/inputs/x: no"),
        Failure("invalid_request", "no; /inputs: no"),
    ]
    assert assign(refuse("/0/inputs/x", "/10"), 2) is None
    assert assign(refuse(""), 2) is None
    assert assign(TooLarge(413, "body_too_large", "too large"), 2) is None
    assert assign(TooLarge(413, "body_too_large", "too large"), 1) == [Failure("body_too_large", "too large")]
    with pytest.raises(InvalidRequest):
        assign(refuse("/defaults/expires_in"), 1)
    with pytest.raises(InvalidArgument, match="have changed since"):
        assign(refuse("Idempotency-Key"), 1)


def test_tries_come_less_and_less_often() -> None:
    error = ConnectionFailed("away")
    assert [choose_pause(tries, error) for tries in (1, 2, 3)] == [0.5, 1, 2]
    assert choose_pause(1000, error) == LONGEST_PAUSE
    assert choose_pause(1, RateLimited(429, "queue_full", "full", retry_after=7)) == 7
    assert choose_pause(1, RateLimited(429, "queue_full", "full", retry_after=3600)) == LONGEST_PAUSE
