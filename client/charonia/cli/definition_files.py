"""Reads the definition of a pipeline from a file."""

import json
import sys
from pathlib import Path
from typing import Any

from charonia.cli.arguments import InvalidArgument


def read_definition(path: str) -> dict[str, Any]:
    """Return the JSON object in a file, or on standard input for `-`. Raise InvalidArgument."""
    text = sys.stdin.buffer.read() if path == "-" else Path(path).expanduser().read_bytes()
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"{path}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidArgument(f"{path}: a definition is a JSON object with `inputs`, `steps` and `outputs`")
    return found
