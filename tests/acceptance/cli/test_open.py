"""`--open`: each command that shows something opens the console's page of it."""

import re
from pathlib import Path

import pytest

from deploy.local.processes.ports import free_ports
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.command_line import CommandLine

PATTERN = re.compile(r"^  \[/(.*)/, \w+\],$", re.MULTILINE)  # a page in the console's list of them


def find_page(address: str, url: str) -> str:
    """Return the path of a page and its query. Fail if the console has no such page."""
    root = f"{url}/console"
    assert address.startswith(f"{root}/")
    path = address.removeprefix(root)
    patterns = PATTERN.findall((ROOT / "console" / "scripts" / "main.js").read_text())
    assert len(patterns) >= 11
    assert any(re.match(each.replace("(?<", "(?P<").replace(r"\/", "/"), path.partition("?")[0]) for each in patterns)
    return path


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        ("top", "/"),
        ("models", "/models"),
        ("models echo", "/models/echo"),
        ("jobs --status=failed --model=echo", "/jobs?status=failed&model=echo"),
        ("dead-letters --model=ocr --error=timeout", "/dead-letters?model=ocr&error=timeout"),
        ("webhooks", "/webhooks"),
        ("files", "/files"),
        ("keys", "/keys"),
    ],
)
def test_a_list(stack: Stack, charonia: CommandLine, arguments: str, page: str) -> None:
    found = charonia.run(*arguments.split(), "--open")
    assert found.returncode == 0
    assert find_page(found.stderr.strip(), stack.url) == page


def test_a_job(stack: Stack, charonia: CommandLine) -> None:
    submitted = charonia.run("submit", "echo", "x=1", "--no-json", "--open")
    page = f"/jobs/{submitted.stdout.strip()}"
    assert find_page(submitted.stderr.splitlines()[-1], stack.url) == page
    for name in ("watch", "job"):
        found = charonia.run(name, submitted.stdout.strip(), "--open")
        assert find_page(found.stderr.strip(), stack.url) == page
    assert find_page(charonia.run("run", "echo", "x=1", "--open").stderr.strip(), stack.url).startswith("/jobs/job_")


def test_a_webhook_and_its_deliveries(stack: Stack, charonia: CommandLine) -> None:
    (closed,) = free_ports(1)
    made = charonia.run("webhooks", "create", f"http://127.0.0.1:{closed}/", "--open")
    address = made.stderr.splitlines()[-1]
    page = find_page(address, stack.url)
    webhook = page.removeprefix("/webhooks/")
    assert webhook.startswith("whk_")
    tried = charonia.run("webhooks", "test", webhook, "--open")
    assert (tried.returncode, tried.stderr.strip()) == (1, address)
    (delivery,) = charonia.read("deliveries", "--webhook", webhook)
    for command in (
        ["webhooks", "show", webhook],
        ["webhooks", "update", webhook, "--description=orders"],
        ["deliveries", "--webhook", webhook],
        ["delivery", delivery["id"]],
        ["recover", webhook, "--since=1h"],
    ):
        assert charonia.run(*command, "--open").stderr.splitlines()[0] == address, command


def test_a_batch(stack: Stack, charonia: CommandLine) -> None:
    (charonia.home / "items.jsonl").write_text("1\n")
    found = charonia.run("batch", "echo", "items.jsonl", "-o", "results.jsonl", "--open")
    assert find_page(found.stderr.splitlines()[0], stack.url) == "/jobs?model=echo"


def test_a_terminal_opens_the_browser(stack: Stack, charonia: CommandLine, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    program.chmod(0o755)
    with charonia.on_terminal("models", "--open", BROWSER=f"{program} %s") as terminal:
        assert terminal.wait() == 0
    assert opened.read_text() == f"{stack.url}/console/models\n"
    assert "/console" not in terminal.text
