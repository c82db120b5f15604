"""What an upload reads: a path, an open file or bytes."""

import io
import mimetypes
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from charonia.errors import ConnectionFailed, InvalidInput
from charonia.references import FileId
from charonia.schemas import FieldProblem

LARGE = 1024 * 1024  # bytes; paths and files above it are uploaded as files
PIECE = 1024 * 1024  # bytes that are read at a time
BINARY = "application/octet-stream"

OnProgress = Callable[[int], object]


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


class Source:
    """A source, which may be read several times. `size` is in bytes; None if it is not known."""

    def __init__(self, source: Path | bytes | BinaryIO) -> None:
        """Raise InvalidInput for a path that is no file, and for a text file."""
        self._path = source if isinstance(source, Path) else None
        self._file: Any = io.BytesIO(source) if isinstance(source, bytes) else source
        self._is_used = False
        self.position = 0
        if self._path is not None:
            if not self._path.is_file():
                raise InvalidInput([FieldProblem("", f"there is no file {str(self._path)!r}")])
            self._file = None
        elif isinstance(self._file, io.TextIOBase) or not hasattr(self._file, "read"):
            raise InvalidInput([FieldProblem("", "pass a path, bytes, or a file that is open in binary mode")])
        self._start = self._file.tell() if self._file is not None and is_seekable(self._file) else 0
        self.size = measure(source)

    def rewind(self) -> None:
        """Go to the beginning. Raise ConnectionFailed if that was read, and cannot be read again."""
        if self._path is not None:
            self.close()
            self._file = self._path.open("rb")
        elif is_seekable(self._file):
            self._file.seek(self._start)
        elif self._is_used:
            raise ConnectionFailed("the upload broke off, and its source cannot be read again; upload a path instead")
        self._is_used, self.position = True, 0

    def read(self) -> bytes:
        """Return the next piece; none at the end."""
        piece: bytes = self._file.read(PIECE)
        self.position += len(piece)
        return piece

    def close(self) -> None:
        """Close the file of a path."""
        if self._path is not None and self._file is not None:
            self._file.close()
            self._file = None

    def guess_type(self) -> str:
        """Return the media type by the name of the file."""
        name: Any = self._path or getattr(self._file, "name", "")
        return mimetypes.guess_type(str(name))[0] or BINARY


def is_seekable(file: Any) -> bool:
    return bool(getattr(file, "seekable", bool)())


def measure(source: Any) -> int | None:
    """Return the bytes of a path, a seekable file (from its position) or bytes; None for anything else."""
    if isinstance(source, Path):
        return source.stat().st_size if source.is_file() else None
    if isinstance(source, bytes):
        return len(source)
    if not is_seekable(source) or isinstance(source, io.TextIOBase):
        return None
    start = source.tell()
    end = int(source.seek(0, io.SEEK_END))
    source.seek(start)
    return end - int(start)


def find_large(inputs: Mapping[str, Any], over: int) -> dict[str, Path | BinaryIO]:
    """Return the paths and files among the inputs with more than `over` bytes."""
    return {
        name: value
        for name, value in inputs.items()
        if (isinstance(value, Path) or hasattr(value, "read"))
        and getattr(value, "closed", False) is not True  # to read it explains that
        and (measure(value) or 0) > over
    }


def find_contents(inputs: Mapping[str, Any], names: Collection[str]) -> dict[str, Path | bytes | BinaryIO]:
    """Return the paths, open files and bytes among the inputs with these names."""
    return {
        name: value
        for name, value in inputs.items()
        if name in names
        and (isinstance(value, (Path, bytes)) or hasattr(value, "read"))
        and getattr(value, "closed", False) is not True  # to read it explains that
    }


def find_references(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the ids of files among the inputs, which the API writes as `{"file": "file_…"}`."""
    named = {name: str(value) for name, value in inputs.items() if isinstance(value, FileId)}
    return named | {
        name: value["file"]
        for name, value in inputs.items()
        if isinstance(value, Mapping) and list(value) == ["file"] and isinstance(value["file"], str)
    }


def write_piece(output: BinaryIO, digest: Digest, piece: bytes) -> None:
    """Write a piece, and add it to the digest."""
    output.write(piece)
    digest.update(piece)
