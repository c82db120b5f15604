"""`--help` explains a command, and does nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
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


def run(command: str, argument: str) -> "subprocess.CompletedProcess[str]":
    """Run a command without any setting, so that it can do nothing."""
    argv = [sys.executable, "-m", command, argument]
    return subprocess.run(argv, cwd=ROOT, env={}, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_the_command(command: str) -> None:
    shown = run(command, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(f"usage: python -m {command}")


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_argument_is_refused(command: str) -> None:
    refused = run(command, "--bogus")
    assert refused.returncode == 2
    assert "usage:" in refused.stderr


@pytest.mark.parametrize(("command", "text"), [("key", "make key TENANT=acme"), ("reload", "make reload MODEL=ocr")])
def test_what_is_missing_is_named_as_make_takes_it(command: str, text: str) -> None:
    refused = run("deploy.local", command)
    assert (refused.returncode, text in refused.stderr) == (2, True)
