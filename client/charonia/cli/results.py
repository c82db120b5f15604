"""Prints the outputs of a job."""

import base64
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.text import Text

from charonia.cli.session import Session
from charonia.cli.terminal.console import show_text
from charonia.cli.terminal.tables import NOTHING, print_fields, show_bytes, show_ms
from charonia.contents import decode_elements
from charonia.results import Outputs, Result
from charonia.schemas import Output

MOST_CHARACTERS = 2000  # of an output on a terminal


def print_result(session: Session, result: Result, *, as_text: bool) -> None:
    """Print the outputs of a succeeded job: as text, as JSON, or for people."""
    if as_text:
        session.print_text(join_text(result), raw=True)
    elif session.as_json:
        session.print_json(to_json(result))
    else:
        print_fields(session, [(name, shorten(result, name)) for name in result])
        note_success(session, result)


def note_success(session: Session, result: Result) -> None:
    """Say that a job succeeded, and how long it took."""
    metrics = result.job.metrics
    session.note(f"{result.job.id} succeeded in {show_ms(metrics.total_ms)}, inference {show_ms(metrics.inference_ms)}")


def to_json(result: Result) -> dict[str, Any]:
    """Return a succeeded job with its outputs by name, for JSON."""
    outputs = {name: _describe(result, name) for name in result}
    return {"id": result.job.id, "status": result.job.status, "model": result.job.model, "outputs": outputs}


def list_responses(outputs: Outputs, name: str) -> list[Output]:
    """Return all responses of an output, in order."""
    return sorted((each for each in outputs.tensors if each.name == name), key=lambda each: each.response)


def is_remote(output: Output) -> bool:
    """Return whether an output is in a file, and not downloaded, or at a location of the caller's."""
    return output.location is not None or (output.file is not None and output.content is None)


def _describe(outputs: Outputs, name: str) -> Any:
    """Return an output for JSON: its values, or each of its responses if any is in a file."""
    responses = list_responses(outputs, name)
    if not any(map(is_remote, responses)):
        return _encode(outputs[name])
    found = [_describe_response(each) for each in responses]
    return found[0] if len(found) == 1 else found


def _describe_response(output: Output) -> dict[str, Any]:
    described = {"datatype": output.datatype, "shape": output.shape}
    if is_remote(output):
        place = ("file", "download_url") if output.location is None else ("location",)
        return described | {field: getattr(output, field) for field in (*place, "size", "sha256")}
    return described | {"data": _encode(decode_elements(output))}


def _encode(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return [_encode(each) for each in value] if isinstance(value, list) else value


def join_text(outputs: Outputs) -> str:
    """Return all texts, a line each; without texts, all values."""
    elements = [each for name in outputs for each in flatten(outputs[name])]
    texts = [each for each in elements if isinstance(each, str)]
    return "\n".join(texts or [str(each) for each in elements])


def flatten(value: Any) -> list[Any]:
    """Return the elements of nested lists."""
    return [inner for each in value for inner in flatten(each)] if isinstance(value, list) else [value]


def shorten(outputs: Outputs, name: str) -> Text:
    """Return an output for a terminal: its texts a line each, its values, and its files."""
    lines = []
    for in_files, responses in groupby(list_responses(outputs, name), key=is_remote):
        if in_files:
            lines += [f"{each.location or each.file} ({show_bytes(each.size or 0)})" for each in responses]
        else:
            lines.append(_shorten_values(list(responses)))
    return show_text("\n".join(lines) or NOTHING)


def _shorten_values(tensors: Sequence[Output]) -> str:
    """Return the values of responses of one output, cut after MOST_CHARACTERS."""
    values = Outputs(tensors)[tensors[0].name]
    elements = flatten(values)
    if elements and all(isinstance(each, str) for each in elements):
        shown = "\n".join(elements)
    elif any(isinstance(each, bytes) for each in elements):
        shown = "\n".join(
            f"{len(each)} bytes; --output DIR saves them" if isinstance(each, bytes) else each for each in elements
        )
    else:
        shown = str(values)
    if len(shown) > MOST_CHARACTERS:
        shape = tensors[0].shape if len(tensors) == 1 else f"{len(tensors)} responses"
        shown = f"{shown[:MOST_CHARACTERS]} … ({tensors[0].datatype} {shape}; --json prints all)"
    return shown
