"""`--help` explains a command, and does nothing else."""

import os
import runpy
import sys
from collections.abc import Callable

import pytest

# Another test may have imported the module of a command.
pytestmark = pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
COMMANDS = [
    "common.postgres.migrate",
    "common.rabbitmq.dead_messages",
    "deploy.bundle",
    "deploy.bundle.rehearsal",
    "deploy.compose.images",
    "deploy.docs",
    "deploy.local",
    "services.gateway.commands.audit",
    "services.gateway.commands.check_files",
    "services.gateway.commands.keys",
    "services.gateway.commands.limits",
    "services.gateway.commands.locations",
    "services.gateway.commands.reencrypt",
]


Run = Callable[[str, str], tuple[object, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process without any setting, so that it can do nothing.

    Return its code, its output and its errors.
    """
    for name in list(os.environ):
        monkeypatch.delenv(name)

    def run(command: str, argument: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", [command, argument])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(command, run_name="__main__", alter_sys=True)
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_the_command(command: str, run: Run) -> None:
    code, output, errors = run(command, "--help")
    assert (code, errors) == (0, "")
    assert output.startswith(f"usage: python -m {command}")


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_argument_is_refused(command: str, run: Run) -> None:
    code, _, errors = run(command, "--bogus")
    assert code == 2
    assert "usage:" in errors


@pytest.mark.parametrize(("command", "text"), [("key", "make key TENANT=acme"), ("reload", "make reload MODEL=ocr")])
def test_what_is_missing_is_named_as_make_takes_it(command: str, text: str, run: Run) -> None:
    code, _, errors = run("deploy.local", command)
    assert (code, text in errors) == (2, True)
