"""Plans chunks of items, and reads those that were planned before."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO, NamedTuple

from charonia import Charonia, InvalidInput
from charonia.cli.arguments import InvalidArgument
from charonia.cli.batch.items import InvalidItem, Line, make_digest, parse_item, read_lines
from charonia.cli.batch.results import explain
from charonia.inputs import EncodedItem
from charonia.journal_records import Chunk, Planned
from charonia.schemas import Failure

CHUNK_BYTES = 8 * 1024 * 1024  # of a request, if more than one item is in it


class Entry(NamedTuple):
    """An item of a chunk: as it is sent, or why it cannot be."""

    number: int
    custom_id: str | None
    encoded: EncodedItem | None
    failure: Failure | None


class ItemFile:
    """The items of a run, encoded for their model."""

    def __init__(self, path: Path, client: Charonia, model: str) -> None:
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._client = client
        self._model = model

    def close(self) -> None:
        self._file.close()

    def count(self) -> int:
        """Return how many items there are."""
        return sum(1 for _ in read_lines(self._file))

    def plan(self, first: int, start: int, size: int) -> tuple[Planned, list[Entry]] | None:
        """Return the chunk of up to `size` items that begins at this item and byte. None at the end of the file."""
        entries: list[Entry] = []
        end, length = start, 0
        for line in read_lines(self._file, start):
            entry = self._encode(first + len(entries), line)
            length += len(entry.encoded.line) if entry.encoded else 0
            if entries and length > CHUNK_BYTES:
                break
            entries.append(entry)
            end = line.end
            if len(entries) == size:
                break
        if not entries:
            return None
        digest = make_digest(self._file, start, end)
        now = datetime.now(timezone.utc)
        return Planned(first, len(entries), digest, uuid.uuid4().hex, now, start, end), entries

    def read(self, planned: Planned) -> list[Entry]:
        """Return the items of a chunk that may have been submitted."""
        return [self._encode(index, line) for index, line in self._read_lines(planned)]

    def read_names(self, planned: Planned) -> list[str | None]:
        """Return the custom_id of each item of a chunk."""
        return [self._parse_name(line) for _, line in self._read_lines(planned)]

    def check(self, chunk: Chunk) -> None:
        """Raise InvalidArgument if the items of a chunk are not those that were planned."""
        planned = chunk.planned
        if make_digest(self._file, planned.start, planned.end) != planned.digest or self._ends_within(planned.end):
            raise InvalidArgument(
                f"{self._path} has changed where it was read already; put it back as it was, or begin anew with "
                "--restart. New items may only follow at its end"
            )

    def _ends_within(self, end: int) -> bool:
        """Return whether a line goes on at this place."""
        self._file.seek(end - 1)
        last, following = self._file.read(1), self._file.read(1)
        return last != b"\n" and following not in (b"", b"\n")

    def _read_lines(self, planned: Planned) -> Iterator[tuple[int, Line]]:
        for number, line in zip(range(planned.count), read_lines(self._file, planned.start)):  # noqa: B905 -- the rest
            yield planned.first + number, line

    def _encode(self, index: int, line: Line) -> Entry:
        try:
            item = parse_item(line.text, self._path.parent)
        except InvalidItem as error:
            return Entry(index, error.custom_id, None, error.failure)
        try:
            return Entry(index, item.custom_id, self._client.batches.encode(self._model, item.inputs), None)
        except InvalidInput as error:
            return Entry(index, item.custom_id, None, explain(error))

    def _parse_name(self, line: Line) -> str | None:
        try:
            return parse_item(line.text, self._path.parent).custom_id
        except InvalidItem as error:
            return error.custom_id
