"""Finds out what the lines of a file are, before any of them becomes a job."""

import hashlib
from typing import Any, NamedTuple

import msgspec

from services.gateway.batches.checks import Turns
from services.gateway.batches.parse import remove_mark
from services.gateway.openai.batches.record import BatchError, set_bit
from services.gateway.openai.batches.source import Line, LineSource

MAX_LINES = 100_000
BLANK = 10  # times as many lines, if the others are blank
MAX_ERRORS = 10  # that are told
DIGEST_BYTES = 16
FORM = '{"custom_id": "…", "method": "POST", "url": "/v1/chat/completions", "body": {…}}'


class Head(msgspec.Struct, frozen=True):
    """Any line that is a JSON object."""

    custom_id: Any = None


class Found(NamedTuple):
    """What the lines are: how many, which have the `custom_id` of an earlier one, and why none can run."""

    lines: int
    duplicates: bytes  # a bit for each line
    errors: list[BatchError]


class Survey:
    """The lines so far. It holds a digest of each `custom_id`: 10 MB at most."""

    def __init__(self) -> None:
        self._count = 0  # lines that are not blank
        self._row = 0  # of all lines
        self._has_object = False
        self._seen: set[bytes] = set()
        self._duplicates = bytearray()
        self._errors: list[BatchError] = []

    @property
    def is_full(self) -> bool:
        """Whether there are more lines than a batch may have. Blank ones count little, but not nothing."""
        return self._count > MAX_LINES or self._row > BLANK * MAX_LINES

    def add(self, line: Line) -> None:
        """Take the next line of a page."""
        head = None if line.text is None else read_head(line.text)
        if head is not None:
            self._has_object = True
            self._note_name(head.custom_id)
        elif len(self._errors) < MAX_ERRORS and not self._has_object:
            text = f"this line is no JSON object; write each line as {FORM}"
            self._errors.append(BatchError("invalid_json_line", text, self._row + line.number + 1))
        self._count += 1

    def turn_page(self, rows: int) -> None:
        """Go on after a page of so many lines, blank ones too."""
        self._row += rows

    def _note_name(self, custom_id: Any) -> None:
        """Note whether an earlier line has this name. One that is no text is refused with its line."""
        if not isinstance(custom_id, str):
            return
        digest = hashlib.blake2b(custom_id.encode(errors="replace"), digest_size=DIGEST_BYTES).digest()
        if digest in self._seen:
            set_bit(self._duplicates, self._count)
        self._seen.add(digest)

    def end(self) -> Found:
        """Return what was found in the whole file."""
        if self.is_full:
            text = (
                f"the file has more than {MAX_LINES} lines; split it into several files, each with a batch of its own"
            )
            return Found(0, b"", [BatchError("too_many_tasks", text)])
        if not self._count:
            return Found(0, b"", [BatchError("empty_file", f"the file has no line; write lines such as {FORM}")])
        if not self._has_object:
            return Found(self._count, b"", self._errors)
        return Found(self._count, bytes(self._duplicates), [])


def read_head(text: bytes) -> Head | None:
    """Return what a line says of itself, or None if it is no JSON object."""
    try:
        return msgspec.json.decode(remove_mark(text), type=Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def survey(source: LineSource, key: str, size: int) -> Found:
    """Read a file of `size` bytes once. Raises as LineSource.read does."""
    lines, turns, place = Survey(), Turns(), 0
    while place < size and not lines.is_full:
        page = await source.read(key, size, place)
        for line in page.lines:
            lines.add(line)
            await turns.end()
        lines.turn_page(page.rows)
        place = page.end
    return lines.end()
