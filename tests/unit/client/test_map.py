"""`map` yields results as they end or in order, and a run that was killed goes on."""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from charonia import Done, InvalidInput, InvalidRequest, ResumeError, journal

from tests.support.api.fake_batches import FakeBatches


@pytest.fixture
def gateway() -> FakeBatches:
    return FakeBatches()


def show(found: Iterator[Done]) -> list[tuple[int, float]]:
    return [(done.index, done["y"][0]) for done in found]


def test_results_come_as_they_end_or_in_order(gateway: FakeBatches) -> None:
    gateway.held = {0, 5}
    client = gateway.make_client()
    found = client.map("double", range(12), concurrency=12)
    early = [next(found).index for _ in range(10)]
    assert sorted(early) == [1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
    gateway.held = set()
    assert sorted(done.index for done in found) == [0, 5]

    gateway.held = {101}
    in_order = client.map("double", range(100, 112), concurrency=12, ordered=True)
    assert next(in_order)["y"] == [200.0]
    gateway.held = set()
    assert show(in_order) == [(number, 200.0 + 2 * number) for number in range(1, 12)]


def test_an_item_that_cannot_be_sent_has_its_place_in_the_order(gateway: FakeBatches) -> None:
    found = list(gateway.make_client().map("double", [1, "two", 3, "four"], concurrency=4, ordered=True))
    assert [done.index for done in found] == [0, 1, 2, 3]
    assert [type(done.error) for done in found] == [type(None), InvalidInput, type(None), InvalidInput]


def test_a_run_in_order_is_not_far_ahead_of_its_oldest_item(gateway: FakeBatches) -> None:
    """Otherwise an endless source fills the memory while one job runs long."""
    gateway.held = {0}
    found = gateway.make_client().map("double", itertools.count(), concurrency=4, ordered=True, timeout=0.1)
    with pytest.raises(TimeoutError):
        next(found)
    assert sum(map(len, gateway.batches)) == 16


def test_the_text_of_a_result_is_at_hand(gateway: FakeBatches) -> None:
    (done,) = gateway.make_client().map("double", [7])
    assert done.text == "<7>"


def test_a_batch_that_is_larger_than_the_queue_is_split() -> None:
    gateway = FakeBatches(largest=3)
    assert show(gateway.make_client().map("double", range(20), ordered=True)) == [(n, 2.0 * n) for n in range(20)]
    assert max(map(len, gateway.batches)) <= 3
    assert sorted(itertools.chain(*gateway.batches)) == list(range(20))


@pytest.mark.parametrize("seen", [0, 1, 9])
def test_a_run_that_was_left_goes_on_and_no_item_runs_twice(gateway: FakeBatches, tmp_path: Path, seen: int) -> None:
    path = tmp_path / "progress"
    items = [*range(10), "ten", *range(11, 20)]
    first = gateway.make_client().map("double", items, concurrency=8, resume=path)
    for _ in range(seen):
        next(first)
    first.close()  # type: ignore[attr-defined]
    assert path.exists() == (seen > 0)
    found = list(gateway.make_client().map("double", items, concurrency=12, ordered=True, resume=path))
    assert [done.index for done in found] == list(range(20))
    assert [done["y"] for done in found if done.error is None] == [[2.0 * n] for n in range(20) if n != 10]
    assert sorted(itertools.chain(*gateway.batches)) == [n for n in range(20) if n != 10]
    assert not path.exists()


def test_a_submit_whose_answer_was_lost_is_repeated_with_its_key(gateway: FakeBatches, tmp_path: Path) -> None:
    path, metadata = tmp_path / "progress", {"a": 1, "b": 1}
    gateway.killed_at = 1
    with pytest.raises(KeyboardInterrupt):
        list(gateway.make_client().map("double", range(8), concurrency=8, resume=path, metadata=metadata))
    gateway.killed_at = None
    before = path.read_bytes()
    with pytest.raises(InvalidRequest):  # the same arguments in another order are another request
        list(gateway.make_client().map("double", range(8), concurrency=8, resume=path, metadata={"b": 1, "a": 1}))
    assert path.read_bytes() == before
    found = gateway.make_client().map("double", range(8), concurrency=8, ordered=True, resume=path, metadata=metadata)
    assert show(found) == [(number, 2.0 * number) for number in range(8)]
    assert sorted(itertools.chain(*gateway.batches)) == list(range(8))


def test_a_run_goes_on_only_as_it_began(gateway: FakeBatches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "progress"
    client = gateway.make_client()
    next(client.map("double", range(8), concurrency=4, resume=path))
    before = path.read_bytes()
    with pytest.raises(ResumeError, match=f"the items 0 to 0 are not those .*, or delete {path}"):
        list(client.map("double", range(1, 9), concurrency=4, resume=path))
    with pytest.raises(ResumeError, match=r"other arguments: metadata was not given\. Give"):
        list(client.map("double", range(8), metadata={"a": 1}, resume=path))
    path.write_bytes(before.rpartition(b'{"is":"submitted"')[0])  # as if the answer was not written down
    monkeypatch.setattr(journal, "KEY_LIFE", timedelta())
    with pytest.raises(ResumeError, match="it is not known whether the items 3 to 3 were submitted"):
        list(client.map("double", range(8), concurrency=4, resume=path))


def test_a_run_that_never_began_leaves_nothing(gateway: FakeBatches, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="422 refused"):
        list(gateway.make_client().map("double", [1], priority="high", resume=tmp_path / "progress"))
    assert list(tmp_path.iterdir()) == []


def test_wrong_arguments_are_named(gateway: FakeBatches, tmp_path: Path) -> None:
    for path in ("", tmp_path):
        with pytest.raises(InvalidInput, match=r"resume: .* is a folder; give the path of a file"):
            next(gateway.make_client().map("double", [1], resume=path))
    for concurrency in (0, "5"):
        with pytest.raises(InvalidInput, match="concurrency: must be a whole number from 1, not"):
            next(gateway.make_client().map("double", [1], concurrency=concurrency))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["precious\n", "precious", '{"is":"other"}\n'])
def test_a_file_that_is_no_journal_is_left_as_it_was(gateway: FakeBatches, tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(ResumeError, match="has something else than the progress of a run; name another file"):
        next(gateway.make_client().map("double", [1], resume=path))
    assert path.read_text() == text


@pytest.mark.parametrize("length", [0, 5, 30])
def test_a_journal_whose_first_record_was_cut_off_begins_anew(
    gateway: FakeBatches, tmp_path: Path, length: int
) -> None:
    path = tmp_path / "progress"
    path.write_text('{"is":"begin","model":"double","url":"http'[:length])
    assert len(list(gateway.make_client().map("double", [1], resume=path))) == 1


def test_two_runs_do_not_share_a_file(gateway: FakeBatches, tmp_path: Path) -> None:
    first = gateway.make_client().map("double", range(8), concurrency=4, resume=tmp_path / "progress")
    next(first)
    with pytest.raises(ResumeError, match="another run writes to"):
        next(gateway.make_client().map("double", range(8), concurrency=4, resume=tmp_path / "progress"))
    assert len(list(first)) == 7
