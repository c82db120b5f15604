"""Every end of the command line has a documented code, and says what is wrong in a line."""

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from charonia.cli import session
from charonia.cli.commands import login
from charonia.cli.exits import UNREACHABLE
from charonia.cli.main import main

from deploy.local.settings import ROOT

USAGE, LOCAL = 2, 5
# A gateway that answers nothing: these commands end before they call one.
NOWHERE = {"CHARONIA_URL": "http://127.0.0.1:9", "CHARONIA_KEY": "ch_x", "PYTHONPATH": str(ROOT / "client")}


def run_in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell command in which `charonia` is the command line."""
    script = f'charonia() {{ {sys.executable} -m charonia.cli "$@"; }}; {command}'
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **NOWHERE}
    return subprocess.run(
        ["bash", "-c", script], env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("charonia --help > /dev/full", LOCAL, os.strerror(errno.ENOSPC)),
        ("charonia --help >&-", LOCAL, os.strerror(errno.EBADF)),
        ("charonia login --url http://a <&-", LOCAL, os.strerror(errno.EBADF)),
        ("charonia batch echo <(echo 1) -o results", USAGE, "is no plain file"),
        ("echo 1 | charonia batch echo - -o results", USAGE, "is no plain file"),
    ],
)
def test_what_is_wrong_with_a_stream_is_one_line_with_a_code(
    command: str, code: int, text: str, tmp_path: Path
) -> None:
    found = run_in_shell(command, tmp_path)
    assert (found.returncode, found.stdout) == (code, "")
    assert text in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "echo", "x=1", "--output", "/dev/null/a"], "name a folder you can write to"),
        (["watch", "job_1", "--output", "/dev/null/a"], "name a folder you can write to"),
        (["run", "echo", "x=1", "--idempotency-key", "ä"], "write visible ASCII characters"),
        (["job", ""], "job: an empty text was given"),
        (["cancel", "job_1", ""], "jobs: an empty text was given"),
    ],
)
def test_a_mistake_is_one_line_with_a_code(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["charonia", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    printed, told = capsys.readouterr()
    assert (end.value.code, printed) == (USAGE, "")
    assert text in told
    assert len(told.splitlines()) == 1


def test_a_closed_standard_error_keeps_the_code(tmp_path: Path) -> None:
    found = run_in_shell("charonia job '' 2>&-", tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (USAGE, "", "")


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    found = run_in_shell("charonia --help | true; exit ${PIPESTATUS[0]}", tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_a_missing_package_has_the_code_of_a_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ImportError('no typer')")
    found = run_in_shell("charonia jobs", tmp_path)
    assert (found.returncode, found.stdout) == (USAGE, "")
    assert "needs more packages (no typer)" in found.stderr


def test_the_help_lists_all_codes(tmp_path: Path) -> None:
    shown = " ".join(run_in_shell("charonia --help", tmp_path).stdout.split())
    for code in (0, 1, 2, 3, 4, 5, 6, 130):
        assert f" {code} " in shown[shown.index("Exit codes") :]


@pytest.mark.parametrize("command", ["jobs", "login"])
def test_a_gateway_that_is_away_has_a_code(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**NOWHERE, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    for module in (login, session):
        monkeypatch.setattr(module, "CALL_SECONDS", 0.5)
    monkeypatch.setattr(sys, "argv", ["charonia", command])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ch_x")))
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert (end.value.code, printed.out) == (UNREACHABLE, "")
    assert "Check that the gateway runs and that the URL is right: CHARONIA_URL" in printed.err
    assert "http://127.0.0.1:9: " in printed.err
    assert printed.err.count("cannot connect to http://127.0.0.1:9 ([Errno 111] Connection refused); retrying") == 1
    assert list(tmp_path.iterdir()) == []  # nothing is stored
