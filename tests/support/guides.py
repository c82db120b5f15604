"""Finds the examples in the docs, and runs them as a reader would."""

import json
import os
import re
import subprocess
import textwrap
from pathlib import Path

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.command_line import run_sources
from tests.support.forked_command import be_program, run_forked

BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
GATEWAY = "localhost:8080"  # of the docs
SECONDS = 600


def read_blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page in this language."""
    return find_blocks(page.read_text(), language)


def find_blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a text in this language, also those in lists."""
    return [textwrap.dedent(block) for _, kind, block in BLOCK.findall(text) if kind == language]


def make_environment(stack: Stack, home: Path, key: str = DEVELOPMENT_KEY) -> dict[str, str]:
    """Return the variables of a reader's shell."""
    return {
        "CHARONIA_URL": stack.url,
        "CHARONIA_KEY": key,
        "OPENAI_BASE_URL": f"{stack.url}/openai/v1",
        "OPENAI_API_KEY": key,
        "PYTHONPATH": str(ROOT / "client"),
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "SSL_CERT_FILE": os.environ["SSL_CERT_FILE"],
    }


def run_python(stack: Stack, folder: Path, program: str, key: str = DEVELOPMENT_KEY) -> str:
    """Return what a program prints. Fail if it fails or prints errors."""
    return check(
        run_forked([use(stack, program)], make_environment(stack, folder, key), folder, be_program, timeout=SECONDS)
    )


def run_shell(stack: Stack, folder: Path, command: str) -> str:
    """Return what a command of the shell prints. Fail if it fails or prints errors."""
    argv = ["sh", "-ec", use(stack, run_sources(command))]
    environment = make_environment(stack, folder)
    return check(
        subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    )


def use(stack: Stack, text: str) -> str:
    """Return an example with the address of a stack."""
    return text.replace(GATEWAY, stack.url.split("/")[-1])


def check(found: "subprocess.CompletedProcess[str]") -> str:
    """Return what an example printed. Fail if it failed or printed errors."""
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout


def find_exports(stack_dir: str) -> str:
    """Return the variables of the guide "Tenants and keys", for the stack in this folder."""
    guide = (ROOT / "docs" / "how-to" / "tenants-and-keys.md").read_text()
    exports = "".join(line + "\n" for line in guide.splitlines() if line.startswith("export "))
    ports = json.loads(Path(stack_dir, "ports.json").read_text())
    exports = exports.replace(".charonia/stack", stack_dir)
    return exports.replace("5433", str(ports["postgres_port"])).replace("5673", str(ports["rabbitmq_port"]))
