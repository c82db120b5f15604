"""`charonia batch --ordered` writes results in the order of the items, also if it goes on after its end."""

import contextlib
import json
from pathlib import Path

import pytest
from charonia.cli.batch.bar import Bar
from charonia.cli.batch.chunks import ItemFile
from charonia.cli.batch.files import close_files, open_files
from charonia.cli.batch.run import Run, Task
from charonia.cli.session import Session
from charonia.errors import ResumeError
from charonia.journal_records import Beginning

from tests.support.api.fake_batches import FakeBatches

COUNT = 12


def run(gateway: FakeBatches, folder: Path, *, ordered: bool) -> list[int]:
    """Run until the end, or until the gateway interrupts it. Return the indexes in the file of results."""
    items, output = folder / "items.jsonl", folder / "results.jsonl"
    items.write_text("".join(f"{number}\n" for number in range(COUNT)))
    client = gateway.make_client()
    journal, results = open_files(items, output, restart=False)
    with contextlib.closing(ItemFile(items, client, "double")) as source, Bar(Session(None, True), "double") as bar:
        try:
            found = Run(client, Task("double", {}, 4, ordered), source, journal, results, bar)
            found.resume(Beginning("double", client.url, {}, ordered))
            with contextlib.suppress(KeyboardInterrupt):
                found.finish()
        finally:
            close_files(journal, results)
    return [json.loads(line)["index"] for line in output.read_text().splitlines()]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_slow_first_item_holds_back_the_others_if_wanted(tmp_path: Path, ordered: bool) -> None:
    gateway = FakeBatches()
    gateway.held, gateway.killed_at = {0}, 6
    assert run(gateway, tmp_path, ordered=ordered) == ([] if ordered else [1, 2, 3])
    with pytest.raises(ResumeError, match="ordered was"):
        run(gateway, tmp_path, ordered=not ordered)
    gateway.held, gateway.killed_at = set(), None
    found = run(gateway, tmp_path, ordered=ordered)
    assert sorted(found) == list(range(COUNT))
    assert (found == sorted(found)) is ordered
    assert sorted(number for batch in gateway.batches for number in batch) == list(range(COUNT))
