"""`make up` ends when one of its parts keeps ending, and leaves nothing behind."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.local import __main__ as program
from deploy.local.errors import ProcessDied
from deploy.local.processes.process import Process
from deploy.local.servers.server import Server
from deploy.local.services import Service
from deploy.local.settings import Settings
from deploy.local.stack import Stack
from deploy.local.supervisor import DEATHS


class Part(Server):
    """A program that is ready at once."""

    def __init__(self, name: str, command: str, folder: Path) -> None:
        argv = ["sh", "-c", command]
        self.process = Process(name, argv, env=dict(os.environ), cwd=folder, log=folder / f"{name}.log")

    def probe(self) -> bool:
        return True


def make_stack_of(parts: list[Server]) -> Callable[..., Stack]:
    """Return a class of stacks that have only these parts."""

    class Small(Stack):
        @property
        def servers(self) -> list[Server]:
            return parts

        @property
        def services(self) -> list[Service]:
            return []

        def start(self) -> None:
            self._lock.acquire()
            for part in parts:
                part.start()

    return Small


def test_a_part_that_keeps_ending_ends_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steady, broken = Part("steady", "exec sleep 60", tmp_path), Part("broken", "exec sleep 0.05", tmp_path)
    monkeypatch.setattr(program, "Stack", make_stack_of([steady, broken]))
    monkeypatch.setattr(program, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(program, "describe", lambda _stack: "")
    monkeypatch.setattr("signal.signal", lambda *_: None)  # it would ignore SIGINT to the end of the tests
    with pytest.raises(ProcessDied, match=rf"(?s)broken ended with code 0.*ended {DEATHS} times within 60 s"):
        program.up(Settings.private(tmp_path / "stack"))
    assert not steady.process.running
    text = capsys.readouterr().out
    assert text.count("broken ended with code 0, and is started again") == DEATHS - 1
    assert text.endswith("Stopping …\n")
