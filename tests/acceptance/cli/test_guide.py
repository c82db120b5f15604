"""Every example of the guide works, one after the other; completion names commands and models."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from deploy.local.processes.ports import HOST
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.api.model_inputs import LINES
from tests.support.api.page_pipeline import DEFINITION, TOTAL
from tests.support.command_line import CommandLine, make_environment
from tests.support.waiting import eventually

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
GUIDE = ROOT / "docs" / "how-to" / "use-the-command-line.md"
PIPELINES = ROOT / "docs" / "how-to" / "pipelines.md"


def run_examples(page: Path, stack: Stack, key: str, folder: Path) -> str:
    """Return what the examples of a page print."""
    shutil.copy(ROOT / "deploy" / "local" / "demo.png", folder / "scan.png")
    (folder / "deploy").symlink_to(ROOT / "deploy")
    command = f'charonia() {{ "{sys.executable}" -m charonia.cli "$@"; }}\n'
    script = "set -euo pipefail\n" + command + "".join(BLOCK.findall(page.read_text()))
    found = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=make_environment(stack.url, key, folder),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_every_example_works(stack: Stack, key: str, tmp_path: Path) -> None:
    printed = run_examples(GUIDE, stack, key, tmp_path)
    assert "\n".join(LINES) in printed
    plain = printed.replace(".0]", "]")  # versions of jq differ here
    assert '[1,"two",[[4]]]' in plain
    assert plain.endswith("[[4]]\n")


def test_every_example_of_pipelines_works(stack: Stack, key: str, tmp_path: Path) -> None:
    printed = run_examples(PIPELINES, stack, key, tmp_path)
    assert json.loads((tmp_path / "page.json").read_text()) == DEFINITION
    assert f'"total":{TOTAL}'.replace(" ", "") in printed.replace(" ", "")
    assert "lines  succeeded" in printed
    assert printed.count('"step":"lines"') == len(LINES)


def complete(charonia: CommandLine, words: str) -> "tuple[list[str], str]":
    """Return what bash would offer after these words, and what the command says besides."""
    variables = {"_CHARONIA_CLI_COMPLETE": "complete_bash", "_CHARONIA_COMPLETE": "complete_bash"}
    code = "import sys; sys.argv = ['charonia']; from charonia.cli.main import main; main()"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=charonia.environment | variables | {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return found.stdout.split(), found.stderr


async def test_the_shell_completes_commands_and_models(charonia: CommandLine) -> None:
    commands, _ = complete(charonia, "charonia ")
    assert {"run", "submit", "watch", "batch", "jobs", "models"} <= set(commands)

    async def offer() -> list[str]:
        offered, said = complete(charonia, "charonia run ec")
        assert said == ""
        return offered

    assert await eventually(offer, "a gateway on a busy machine answers within two seconds") == ["echo"]


def test_completion_says_nothing_without_a_gateway(charonia: CommandLine, tmp_path: Path) -> None:
    charonia.environment = make_environment("http://127.0.0.1:9", "ch_x", tmp_path)
    assert complete(charonia, "charonia run ec") == ([], "")


def test_completion_does_not_wait_for_a_gateway_that_says_nothing(charonia: CommandLine, tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as silent:
        charonia.environment = make_environment(f"http://{HOST}:{silent.getsockname()[1]}", "ch_x", tmp_path)
        began = time.monotonic()
        assert complete(charonia, "charonia run ec") == ([], "")
        assert time.monotonic() - began < 18  # two seconds, and the start of Python; other commands wait for 20
