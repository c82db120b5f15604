"""A second stack that goes on with the database and the files of a first one, as after the loss of all its servers."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from deploy.local.servers.postgres import DATABASE, find_programs, role_passwords
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.guides import find_blocks
from tests.support.stacks.guest_stack import GuestStack

GUIDE = ROOT / "docs" / "how-to" / "backup.md"
KEPT = ("CHARONIA_ENCRYPTION_KEYS", "CHARONIA_URL_KEYS", "CHARONIA_STORE_URL")  # what has a backup of its own
COMMAND_SECONDS = 120


def make_successor(stack: GuestStack, folder: Path) -> Stack:
    """Return a stack with an empty database server and broker, on the ports of a stack that has stopped."""
    kept = {name: stack.environment[name] for name in KEPT}
    environment = {**stack.settings.environment, **kept}
    return GuestStack(stack.host, replace(stack.settings, stack_dir=folder, environment=environment))


def start_empty_servers(stack: Stack) -> None:
    """Start the servers. The database server has no database, and no roles of the services."""
    stack.start_servers()
    stack.postgres.drop_database(DATABASE)


def read_commands(heading: str) -> list[str]:
    """Return the commands below a heading of the guide."""
    section = GUIDE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return find_blocks(section, "sh")


def run_commands(heading: str, stack: Stack, folder: Path) -> None:
    """Run the commands below a heading of the guide. Fail if one fails."""
    for command in read_commands(heading):
        code, told = run_command(command, stack, folder)
        assert code == 0, f"{command}{told}"


def run_command(command: str, stack: Stack, folder: Path) -> tuple[int, str]:
    """Run a command of the guide as the owner of the database. Return its exit code and all that it told."""
    own = {
        "PATH": f"{find_programs()}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SERVER_URL": stack.postgres.url_of("postgres"),
        "CHARONIA_ROLE_PASSWORDS": role_passwords(stack.postgres.url),
    }
    found = subprocess.run(
        ["sh", "-ec", command.replace(".venv/bin/python", sys.executable)],
        cwd=folder,
        env=stack.environment | own,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return found.returncode, found.stdout + found.stderr
