"""Profiles on the command line: login."""

from pathlib import Path

import pytest

from deploy.local.stack import Stack
from tests.support.command_line import CommandLine
from tests.support.stacks.key_command import make_key

BROKEN = "default = \n"


@pytest.fixture
def newcomer(charonia: CommandLine) -> CommandLine:
    """The command line of somebody who has set no variables."""
    del charonia.environment["CHARONIA_URL"], charonia.environment["CHARONIA_KEY"]
    return charonia


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / ".config" / "charonia" / "config.toml"


def test_login_on_a_terminal_asks(newcomer: CommandLine, stack: Stack, key: str, config: Path) -> None:
    before = newcomer.run("jobs")
    assert (before.returncode, "run `charonia login`" in before.stderr) == (2, True)
    with newcomer.on_terminal("login") as terminal:
        terminal.wait_for("URL of the gateway")
        terminal.type(f"{stack.url}/\n")
        terminal.wait_for("(hidden): ")
        terminal.type(f"{key}\n")
        assert terminal.wait() == 0
        assert "try: charonia models" in terminal.text
        assert key not in terminal.text
    assert newcomer.read("jobs") == []
    assert (config.stat().st_mode & 0o777, config.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_login_in_a_pipe_reads_the_key(newcomer: CommandLine, stack: Stack, key: str, config: Path) -> None:
    (first,) = newcomer.read("login", "--url", stack.url, "--profile=work", stdin=f"{key}\n")
    assert first == {"profile": "work", "url": stack.url, "default": True, "file": str(config)}
    (second,) = newcomer.read("login", "--url", stack.url, "--profile=the second", stdin=key)
    assert not second["default"]
    assert newcomer.read("jobs") == newcomer.read("jobs", "--profile=the second") == []
    assert newcomer.read("login", "--profile=the second", "--default", stdin=key)[0]["default"]
    assert 'default = "the second"' in config.read_text()


def test_variables_that_come_first_are_named(charonia: CommandLine, stack: Stack, key: str) -> None:
    told = charonia.run("login", "--profile=work", stdin=key)
    assert told.returncode == 0
    assert "CHARONIA_URL and CHARONIA_KEY in this shell come first" in told.stderr


async def test_a_key_that_may_not_read_is_stored(newcomer: CommandLine, stack: Stack) -> None:
    submitting = await make_key(stack, "cli-submit", "--scope", "submit")
    assert newcomer.run("login", "--url", stack.url, stdin=submitting).returncode == 0
    assert newcomer.run("submit", "echo", "x=1").returncode == 0


def test_what_is_wrong_is_not_stored(newcomer: CommandLine, stack: Stack, key: str, config: Path) -> None:
    for url, given, code, text in [
        (stack.url, "ch_wrong", 4, "refuses the key"),
        (stack.url, f"{key[:9]}\n{key[9:]}", 2, "check it for a line break"),
        (stack.url, "", 2, "no key on standard input"),
        (f"{stack.url}/v1", key, 2, "must not end with /v1; leave that out"),
        (f"{stack.url}/api", key, 3, "no gateway of Charonia; leave out the path"),
        ("localhost:8080", key, 2, "must begin with https:// or http://"),
    ]:
        found = newcomer.run("login", "--url", url, stdin=given)
        assert (found.returncode, found.stdout) == (code, ""), found.stderr
        assert text in found.stderr
        assert not given or given not in found.stderr
        assert not config.exists()
    nobody = newcomer.run("login", stdin=key)
    assert (nobody.returncode, "add --url" in nobody.stderr) == (2, True)


def test_a_broken_file_is_named_and_kept(newcomer: CommandLine, stack: Stack, key: str, config: Path) -> None:
    config.parent.mkdir(parents=True)
    config.write_text(BROKEN)
    for command in (["jobs"], ["login", "--url", stack.url]):
        found = newcomer.run(*command, stdin=key)
        assert (found.returncode, found.stdout) == (2, "")
        assert f"{config} cannot be read" in found.stderr
        assert "Traceback" not in found.stderr
    assert config.read_text() == BROKEN
