"""Reads the inputs of a job from arguments such as `image=@scan.png`. Pure, but for files."""

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from charonia.errors import ConfigurationError
from charonia.model_schemas import (
    ModelInfo,
)
from charonia.references import find_reference

HELP = """NAME=VALUE is text, or JSON for numbers. NAME=@FILE is the content of a file, and @- that of standard input. \
NAME=file_… is that of an uploaded file, and NAME=https://… that of a URL. NAME:=VALUE is always JSON, such as \
NAME:='"https://…"' for that text. NAME=@@TEXT is text that begins with @."""


class InvalidArgument(ConfigurationError):
    """An argument has the wrong form."""


def read_inputs(arguments: Iterable[str], model: ModelInfo | None) -> dict[str, Any]:
    """Return the inputs by name. Without a model, every value is JSON if it can be. Raise InvalidArgument."""
    kinds = {each.name: each.datatype for each in model.inputs} if model else {}
    inputs: dict[str, Any] = {}
    for argument in arguments:
        name, separator, text = argument.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if not separator or not name:
            raise InvalidArgument(f"{argument!r} is no input; write NAME=VALUE, such as image=@scan.png")
        if name in inputs:
            raise InvalidArgument(f"the input {name!r} is given twice")
        inputs[name] = read_value(name, text, None if is_json else kinds.get(name), is_json=is_json)
    return inputs


def read_value(name: str, text: str, datatype: str | None, *, is_json: bool = False) -> Any:
    """Return the value of an input. Raise InvalidArgument if it cannot be read."""
    if is_json:
        return _parse(name, text)
    if text.startswith("@@"):
        return text[1:]
    if text.startswith("@"):
        return read_file(name, text[1:])
    if datatype != "BYTES":
        with contextlib.suppress(ValueError):
            return json.loads(text)
    if os.path.isfile(os.path.expanduser(text)):  # noqa: PTH111, PTH113 -- those of Path raise for some texts
        literal = shlex.quote(json.dumps(text, ensure_ascii=False))
        raise InvalidArgument(
            f"the input {name!r}: {text!r} is a file here; write {name}=@{text} for its content, or {name}:={literal} "
            "for this text"
        )
    if (reference := find_reference(text)) is not None:
        return reference
    return text if datatype in (None, "BYTES") else _parse(name, text)


def read_file(name: str, path: str) -> Any:
    """Return a path that the library reads, or what is on standard input. Raise InvalidArgument."""
    if path == "-":
        return sys.stdin.buffer.read()
    found = Path(path).expanduser()
    if found.is_file():
        return found
    if found.is_dir():
        raise InvalidArgument(f"the input {name!r}: {path!r} is a folder; write {name}=@FILE with a file")
    if not found.exists():
        raise InvalidArgument(f"the input {name!r}: there is no file {path!r}; write {name}=@@{path} for this text")
    return found.read_bytes()  # a pipe


def _parse(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise InvalidArgument(f"the input {name!r}: {text[:100]!r} is no number and no JSON") from None
