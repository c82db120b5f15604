"""Reads the items of a file: a line of JSON each."""

import hashlib
import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from charonia.inputs import MAX_BODY
from charonia.schemas import Failure

LONGEST_LINE = 2 * MAX_BODY  # bytes; the item may be shorter in the request
BLOCK_BYTES = 1024 * 1024
FIELDS = ("inputs", "custom_id")


class InvalidItem(Exception):
    """An item cannot be submitted. `custom_id` is its name, if it has a valid one."""

    def __init__(self, code: str, message: str, custom_id: str | None = None) -> None:
        super().__init__(message)
        self.failure = Failure(code, message)
        self.custom_id = custom_id


class Line(NamedTuple):
    """A line that is not blank, and where it ends in the file. `text` is None if it is too long."""

    text: bytes | None
    end: int


class Item(NamedTuple):
    """The inputs of a job by name, or the value of its only input; and the user's name for the item."""

    inputs: Any
    custom_id: str | None


def read_lines(file: BinaryIO, start: int = 0, longest: int = LONGEST_LINE) -> Iterator[Line]:
    """Yield each line from this place of the file. Of one that is too long, hold only a part in memory."""
    end = start
    file.seek(start)
    while text := file.readline(longest):
        end += len(text)
        if len(text) == longest and not text.endswith(b"\n"):
            end += skip_line(file)
            yield Line(None, end)
        elif stripped := text.removeprefix(BOM_UTF8).strip():
            yield Line(stripped, end)


def skip_line(file: BinaryIO) -> int:
    """Read to the end of the line, and return how many bytes these are."""
    size = 0
    while text := file.readline(BLOCK_BYTES):
        size += len(text)
        if text.endswith(b"\n"):
            break
    return size


def make_digest(file: BinaryIO, start: int, end: int) -> str:
    """Return the SHA-256 of a part of a file."""
    digest = hashlib.sha256()
    file.seek(start)
    while start < end and (block := file.read(min(BLOCK_BYTES, end - start))):
        digest.update(block)
        start += len(block)
    return digest.hexdigest()


def parse_item(text: bytes | None, folder: Path) -> Item:
    """Return the item in a line. Texts such as `@scan.png` are files in the folder. Raise InvalidItem."""
    if text is None:
        raise InvalidItem("body_too_large", f"the line is over {LONGEST_LINE / 2**20:.0f} MiB; write @FILE for files")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidItem("malformed_json", f"the line is not JSON: {error}") from error
    custom_id = None
    if isinstance(found, dict) and isinstance(found.get("inputs"), dict):
        custom_id = check_fields(found)
        found = found["inputs"]
    try:
        if isinstance(found, dict):
            return Item({name: find_files(value, folder) for name, value in found.items()}, custom_id)
        return Item(find_files(found, folder), custom_id)
    except FileNotFoundError as error:
        raise InvalidItem("invalid_input", str(error), custom_id) from error


def check_fields(found: dict[str, Any]) -> str | None:
    """Return the name of an item. Raise InvalidItem for other fields than it may have."""
    custom_id = found.get("custom_id")
    if custom_id is not None and not isinstance(custom_id, str):
        raise InvalidItem("invalid_request", f"custom_id is {custom_id!r}, which is no text; write it in quotes")
    if others := [name for name in found if name not in FIELDS]:
        text = f"an item has inputs and custom_id, but no {others[0]!r}; give other fields with --set, for all items"
        raise InvalidItem("invalid_request", text, custom_id)
    return custom_id


def find_files(value: Any, folder: Path) -> Any:
    """Return a value with paths in place of `@FILE`. Raise FileNotFoundError."""
    if isinstance(value, list):
        return [find_files(each, folder) for each in value]
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    if value.startswith("@@"):
        return value[1:]
    path = folder / os.path.expanduser(value[1:])  # noqa: PTH111 -- that of Path raises for unknown users
    if os.path.isdir(path):  # noqa: PTH112 -- as below
        raise FileNotFoundError(f"{str(path)[:200]!r} is a folder; name a file")
    if not os.path.isfile(path):  # noqa: PTH113 -- that of Path raises for names that are too long
        raise FileNotFoundError(f"there is no file {str(path)[:200]!r}; write @{value[:50]} for this text")
    return path
