"""Dead letters on the command line: list and replay."""

import json

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture
def dead(charonia: CommandLine) -> list[str]:
    """Three dead letters, the newest first."""
    for _ in range(3):
        assert charonia.run("run", "faulty", "mode=invalid").returncode == 1
    return [each["id"] for each in charonia.read("dead-letters")]


def test_dead_letters_are_listed(charonia: CommandLine, dead: list[str]) -> None:
    assert [each["id"] for each in charonia.read("dead-letters", "list", "--model=faulty", "--limit=2")] == dead[:2]
    assert len(charonia.read("dead-letters", "--error=invalid_input", "--since=1h")) == 3
    assert charonia.read("dead-letters", "--error=timeout") == []
    told = charonia.tell("dead-letters")
    assert all(each in told for each in (*dead, "faulty", "invalid_input: "))
    assert "no dead letters" in charonia.tell("dead-letters", "--model=echo")


def test_named_jobs_are_replayed(charonia: CommandLine, dead: list[str]) -> None:
    (found,) = charonia.read("dead-letters", "replay", dead[0], dead[1])
    assert (found["replayed"], found["skipped"]) == (dead[:2], [])
    for each in dead[:2]:
        charonia.run("watch", each)
    other = charonia.run("dead-letters", "replay", dead[2], "--target-model=echo")  # which has other inputs
    (skipped,) = json.loads(other.stdout)["skipped"]
    assert (other.returncode, skipped["id"], skipped["code"]) == (4, dead[2], "inputs_refused")
    told = charonia.run("dead-letters", "replay", dead[2], "--target-model=echo", "--no-json")
    assert f"{dead[2]}: not replayed; 'echo' does not accept the job's inputs: it has no input 'mode'" in told.stderr


def test_those_that_match_are_replayed_once_each(charonia: CommandLine, dead: list[str]) -> None:
    nobody = charonia.run("dead-letters", "replay", "--model=faulty")
    assert (nobody.returncode, "Replay 3 jobs? There is nobody to ask; add --yes" in nobody.stderr) == (2, True)
    before = read_ends(charonia)
    with charonia.on_terminal("dead-letters", "replay", "--error=invalid_input", "--limit=2") as terminal:
        terminal.wait_for("Replay 2 jobs?")
        terminal.type("y\n")
        assert terminal.wait() == 0
        assert "replayed 2 jobs" in terminal.text
    for each in dead:
        charonia.run("watch", each)
    after = read_ends(charonia)
    assert [after[each] > before[each] for each in dead] == [True, True, False]
    (found,) = charonia.read("dead-letters", "replay", "--all", "--yes")
    assert sorted(found["replayed"]) == sorted(dead)
    assert "no dead letters match" in charonia.tell("dead-letters", "replay", "--model=echo")


@pytest.mark.parametrize(
    "arguments", [[], ["job_x", "--all"], ["job_x", "--model=echo"], ["--all", "--since=1h"]], ids=" ".join
)
def test_there_is_one_selection(charonia: CommandLine, arguments: list[str]) -> None:
    found = charonia.run("dead-letters", "replay", *arguments)
    assert (found.returncode, found.stdout) == (2, "")
    assert "--all" in found.stderr


def read_ends(charonia: CommandLine) -> dict[str, str]:
    """Return when each dead letter ended."""
    return {each["id"]: each["finished_at"] for each in charonia.read("dead-letters")}
