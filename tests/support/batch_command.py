"""What `charonia batch` writes, and when."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = "results.jsonl"


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of results by their items. Each item has one line, or this fails."""
    lines = [json.loads(line) for line in (folder / RESULTS).read_text().splitlines()]
    found = sorted(lines, key=lambda line: int(line["index"]))
    assert [line["index"] for line in found] == list(range(len(found)))
    return found


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something that a command does."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)
