"""Parts of a local stack that end by themselves start again."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.errors import PortTaken, ProcessDied
from deploy.local.processes.process import Process
from deploy.local.servers.server import Server
from deploy.local.supervisor import DEATHS, WITHIN_SECONDS, Supervisor

DEADLINE = 10.0


class Part(Server):
    """A child that is ready once it has printed a line, unless it `hangs`."""

    ready_within = 0.5

    def __init__(self, folder: Path, *, hangs: bool = False) -> None:
        self.hangs = hangs
        self.greeted = 0
        code = "print('here', flush=True); import time; time.sleep(60)"
        self.process = Process(
            "part", [sys.executable, "-c", code], env=dict(os.environ), cwd=folder, log=folder / "log" / "part.log"
        )

    def probe(self) -> bool:
        return not self.hangs and "here" in self.process.log.tail()

    def greet(self) -> None:
        self.greeted += 1


@pytest.fixture
def part(tmp_path: Path) -> Iterator[Part]:
    part = Part(tmp_path)
    part.ready_within = DEADLINE
    part.start()
    yield part
    part.kill()


def kill(part: Part, supervisor: Supervisor | None = None) -> None:
    """Let it end as a crash would, once it is ready."""
    if supervisor is not None:
        for starting in supervisor._starting.values():
            starting.join(DEADLINE)
    assert part.process.pid is not None
    os.kill(part.process.pid, signal.SIGKILL)
    assert part.process.wait_exit(DEADLINE) == -signal.SIGKILL


def test_a_part_that_ended_is_started_again_in_one_line(part: Part) -> None:
    lines: list[str] = []
    supervisor = Supervisor([part], lines.append)
    supervisor.look()
    assert lines == []
    kill(part)
    supervisor.look()
    supervisor.look()
    assert lines == [f"part ended with code -9, and is started again. Its log: {part.process.log.path}"]
    part.process.wait_ready(lambda: part.greeted == 2, DEADLINE)


def test_the_fifth_death_in_a_minute_is_the_last(part: Part) -> None:
    now = 0.0
    supervisor = Supervisor([part], lambda _: None, lambda: now)
    for _ in range(3 * DEATHS):  # never five in a minute
        kill(part, supervisor)
        supervisor.look()
        now += WITHIN_SECONDS / (DEATHS - 1) + 1
    now += WITHIN_SECONDS
    for _ in range(DEATHS - 1):
        kill(part, supervisor)
        supervisor.look()
    kill(part, supervisor)
    with pytest.raises(ProcessDied, match=r"(?s)part ended with code -9.*part\.log.*5 times within 60 s; mend"):
        supervisor.look()
    assert not part.process.running


def test_a_start_that_fails_counts_as_a_death(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its port may have been taken meanwhile."""

    def refuse() -> None:
        raise PortTaken("port 1 is taken\nset PORT_BASE")

    monkeypatch.setattr(part, "prepare", refuse)
    lines: list[str] = []
    supervisor = Supervisor([part], lines.append)
    kill(part)
    for _ in range(DEATHS - 1):
        supervisor.look()
    assert lines[0].startswith("part ended with code -9, and is started again")
    assert {line.partition(". Its log")[0] for line in lines[1:]} == {
        "part could not start (port 1 is taken), and is started again"
    }
    with pytest.raises(ProcessDied, match=r"^port 1 is taken\nset PORT_BASE\nit ended 5 times within 60 s; mend"):
        supervisor.look()


def test_a_restart_is_no_death(part: Part) -> None:
    lines: list[str] = []
    supervisor = Supervisor([part], lines.append)
    for count in range(2 * DEATHS):
        pid = part.process.pid
        assert supervisor.restart(part)
        assert not supervisor.restart(part)  # it is starting
        supervisor.look()
        supervisor._starting[part.name].join(DEADLINE)
        assert supervisor.is_ready(part)
        assert (part.process.pid != pid, part.greeted) == (True, count + 2)
    supervisor.look()
    assert lines == ["part is restarted."] * 2 * DEATHS


def test_a_part_that_hangs_at_its_start_is_killed(tmp_path: Path) -> None:
    part, lines = Part(tmp_path, hangs=True), list[str]()
    part.launch()
    kill(part)
    Supervisor([part], lines.append).look()
    assert part.process.wait_exit(DEADLINE) == -signal.SIGKILL
    assert "part is not ready after 0.5 s" in lines[1]


def test_a_restart_with_broken_code_waits_for_another(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code may be half written: each save restarts it, and none may end the stack."""
    lines: list[str] = []
    supervisor = Supervisor([part], lines.append)
    whole = [*part.process._argv]
    for _ in range(2 * DEATHS):
        monkeypatch.setattr(part.process, "_argv", [sys.executable, "-c", "raise SystemExit('half written')"])
        assert supervisor.restart(part)
        supervisor._starting[part.name].join(DEADLINE)
        supervisor.look()
        assert not part.process.running
        assert "half written" in str(supervisor.find_failure(part))
    assert lines[1].startswith("part is not ready, and waits for another restart: part ended with code 1")
    monkeypatch.setattr(part.process, "_argv", whole)
    assert supervisor.restart(part)
    supervisor._starting[part.name].join(DEADLINE)
    assert (supervisor.is_ready(part), supervisor.find_failure(part)) == (True, None)
