"""The log of a process stays small while the process runs."""

import threading
from pathlib import Path
from queue import Queue

import pytest

from deploy.local.processes import log as module
from deploy.local.processes.log import Log
from tests.support.waiting import eventually

LINES = [f"this is line {number:7}" for number in range(10)]


async def test_a_log_that_grew_large_is_emptied_under_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE", 100)
    shown: Queue[str] = Queue()
    ended = threading.Event()
    log = Log("child", tmp_path / "child.log", lambda _, line: shown.put(line))
    with log.open() as child:
        log.follow(ended.is_set)
        for line in LINES:  # 210 bytes
            child.write(f"{line}\n".encode())
        child.flush()

        async def is_empty() -> bool:
            return log.path.stat().st_size == 0

        await eventually(is_empty, "the log is emptied")
        child.write(b"one more\n")
        child.flush()
        assert [shown.get(timeout=10) for _ in range(len(LINES) + 1)] == [*LINES, "one more"]
        ended.set()
    assert (tmp_path / "child.log.1").read_text().splitlines() == LINES
    assert log.path.read_text() == "one more\n"
    assert log.tail() == "one more"
