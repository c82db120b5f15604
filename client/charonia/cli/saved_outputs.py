"""Writes the outputs of a job to files."""

import codecs
import math
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from charonia.cli.arguments import InvalidArgument
from charonia.cli.results import flatten, list_responses
from charonia.cli.session import Session
from charonia.contents import decode_elements, encode_content
from charonia.results import Result
from charonia.schemas import Output
from charonia.sources import PIECE

SIGNATURES = {b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg", b"GIF8": ".gif", b"RIFF": ".wav", b"%PDF": ".pdf"}
LONGEST_SIGNATURE = max(map(len, SIGNATURES))


def prepare_folder(folder: Path | None) -> None:
    """Create the folder for outputs before there are any. Raise InvalidArgument if nothing can be written there."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidArgument(f"--output {str(folder)!r}: {error.strerror}; name a folder you can write to") from None


def save_outputs(session: Session, result: Result, folder: Path) -> None:
    """Write each output to a file of its own; if some of its responses are in files, each response to one."""
    for name in result:
        target = folder / (
            "".join(each if each.isalnum() or each in "-_." else "_" for each in name).lstrip(".") or "output"
        )
        responses = list_responses(result, name)
        if any(each.file or each.location for each in responses):
            for number, response in enumerate(responses):
                _save_response(session, response, _number(target, number, len(responses)))
        else:
            _save_values(session, result[name], target)


def _save_values(session: Session, values: Any, target: Path) -> None:
    """Write texts to one file, a line each; other BYTES to a file each; anything else as JSON."""
    elements = flatten(values)
    if any(isinstance(each, bytes) for each in elements):
        for number, each in enumerate(elements):
            content = each if isinstance(each, bytes) else each.encode()
            _write(session, _number(target, number, len(elements)), find_suffix(each), content)
    elif all(isinstance(each, str) for each in elements):
        _write(session, target, ".txt", ("\n".join(elements) + "\n").encode())
    else:
        _write(session, target, ".json", msgspec.json.encode(values))


def _save_response(session: Session, output: Output, target: Path) -> None:
    """Write a response as its file has it, or would have it if it were large."""
    if output.location is not None:  # only the caller can read it
        session.note(f"{output.name} is at {output.location}")
        return
    is_element = output.datatype == "BYTES" and math.prod(output.shape) == 1
    if output.file is None or output.content is not None:
        suffix = find_suffix(decode_elements(output)[0]) if is_element else ".bin"
        _write(session, target, suffix, encode_content(output))
        return
    unnamed = session.client.files.save(output.file, target.with_name(f".{target.name}"))
    path = _add_suffix(target, read_suffix(unnamed) if is_element else ".bin")
    unnamed.replace(path)
    session.note(f"wrote {path}")


def _write(session: Session, target: Path, suffix: str, content: bytes) -> None:
    path = _add_suffix(target, suffix)
    path.write_bytes(content)
    session.note(f"wrote {path}")


def _number(target: Path, number: int, count: int) -> Path:
    return target.with_name(f"{target.name}-{number}") if count > 1 else target


def _add_suffix(target: Path, suffix: str) -> Path:
    return target.with_name(target.name + suffix)  # `with_suffix` would cut a name at its last dot


def find_suffix(content: str | bytes) -> str:
    """Return the suffix of a file with this content, by its first bytes."""
    if isinstance(content, str):
        return ".txt"
    return next((suffix for start, suffix in SIGNATURES.items() if content.startswith(start)), ".bin")


def read_suffix(path: Path) -> str:
    """Return the suffix of a file, as for content that is held whole. Only UTF-8 is text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        start = file.read(LONGEST_SIGNATURE)
        file.seek(0)
        try:
            while piece := file.read(PIECE):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return find_suffix(start)
    return ".txt"
