"""Uploads and the files of batches are one list, with places between any two of them."""

from datetime import UTC, datetime, timedelta

import pytest

from common import ids
from services.gateway.files.store import FileRow
from services.gateway.openai.batches.store import BatchFiles
from services.gateway.openai.files.listing import NEWEST, OLDEST, Listed, Place, list_outputs, take, view_upload

AT = datetime(2026, 11, 28, tzinfo=UTC)


def upload(minutes: int) -> Listed:
    at = AT + timedelta(minutes=minutes)
    row = FileRow(ids.new(), ids.new(), "ready", 3, b"", "text/plain", at, at, None, f"at {minutes}", "batch")
    return Listed(Place(at, row.id), view_upload(row))


def outputs(minutes: int) -> list[Listed]:
    return list(list_outputs(BatchFiles(ids.new(), AT + timedelta(minutes=minutes), has_output=True, has_errors=True)))


ALL = [*outputs(1), upload(0), upload(2), upload(1), *outputs(3)]


@pytest.mark.parametrize("oldest_first", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_pages_have_each_file_once_and_in_order(limit: int, oldest_first: bool) -> None:
    places = {each.file.id: each.place for each in ALL}
    found: list[str] = []
    place = OLDEST if oldest_first else NEWEST
    while page := take(ALL, place, limit, oldest_first=oldest_first):
        found += [file.id for file in page]
        place = places[page[-1].id]
    assert sorted(found) == sorted(places)
    times = [places[each] for each in found]
    assert times == sorted(times, reverse=not oldest_first)


@pytest.mark.parametrize(("output", "errors", "prefixes"), [(True, False, ["output"]), (False, True, ["errors"])])
def test_a_batch_has_only_the_files_that_it_has(output: bool, errors: bool, prefixes: list[str]) -> None:
    found = list(list_outputs(BatchFiles(ids.new(), AT, output, errors)))
    assert [each.file.id.split("_")[1] for each in found] == prefixes
    assert [each.file.filename.rpartition("_")[2] for each in found] == [f"{prefix}.jsonl" for prefix in prefixes]


def test_a_file_of_ours_has_its_id_as_a_name() -> None:
    row = FileRow(ids.new(), ids.new(), "ready", 3, b"", "text/plain", AT, AT + timedelta(days=1), None)
    view = view_upload(row)
    assert (view.filename, view.purpose, view.bytes) == (view.id, "user_data", 3)
    assert view.expires_at is not None
    assert view.expires_at - view.created_at == 86_400
