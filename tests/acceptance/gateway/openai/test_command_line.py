"""The command line talks with models."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.command_line import CommandLine
from tests.support.waiting import eventually

SLOW = "$slow" + " word" * 100


@pytest.fixture
def charonia(stack: Stack, tmp_path: Path) -> Iterator[CommandLine]:
    charonia = CommandLine(stack, DEVELOPMENT_KEY, tmp_path)
    yield charonia
    charonia.close()


def test_an_answer_is_the_text_and_its_job_a_note(charonia: CommandLine) -> None:
    found = charonia.run("chat", "messages_model", "one two", "--metadata", "mine=1")
    assert (found.returncode, found.stdout) == (0, "one two\n")
    assert "job_" in found.stderr
    assert "2 + 2 tokens" in found.stderr


def test_a_prompt_comes_from_standard_input(charonia: CommandLine) -> None:
    found = charonia.run("chat", "vllm_model", "--system", "short", "--max-tokens", "2", stdin="from a pipe\n")
    assert (found.returncode, found.stdout) == (0, "<|im_start|>system short<|im_end|>\n")
    assert "--max-tokens" in found.stderr


def test_json_is_the_answer_of_the_api(charonia: CommandLine) -> None:
    (answer,) = charonia.read("chat", "messages_model", "one two", "--json")
    assert (answer["object"], answer["choices"][0]["message"]["content"]) == ("chat.completion", "one two")


def test_a_terminal_without_a_prompt_is_a_conversation(charonia: CommandLine) -> None:
    with charonia.on_terminal("chat", "messages_model") as terminal:
        terminal.wait_for("> ")
        terminal.type("first\n")
        terminal.wait_for("tokens")
        terminal.type("$request\n")
        terminal.wait_until(lambda text: text.count("tokens") == 2)
        terminal.type("\x04")
        assert terminal.wait() == 0
        said = terminal.text
    assert said.count("first") >= 4  # typed, answered, and both in the second request


async def test_ctrl_c_cancels_the_job(charonia: CommandLine, api: Api) -> None:
    with charonia.on_terminal("chat", "vllm_model", SLOW) as terminal:
        terminal.wait_for("word word")
        assert terminal.interrupt_until_end() == 130
        job = terminal.text.partition("canceled: ")[2].split()[0]

    async def is_canceled() -> bool:
        return (await api.get(job)).status == "canceled"

    await eventually(is_canceled, "the job is canceled")


def test_a_model_that_does_not_speak_is_refused_with_its_reason(charonia: CommandLine) -> None:
    found = charonia.run("chat", "nope", "hi")
    assert found.returncode == 4
    assert "model_not_found" in found.stderr
    assert "messages_model" in found.stderr


def test_a_job_that_fails_fails_the_command(charonia: CommandLine) -> None:
    for form in ((), ("--json",)):
        found = charonia.run("chat", "vllm_model", "$fail one two", *form)
        assert found.returncode == 1
        assert "job_" in found.stderr


def test_an_answer_that_takes_too_long_has_a_code_of_its_own(charonia: CommandLine) -> None:
    for form in ((), ("--json",)):
        assert charonia.run("chat", "vllm_model", SLOW, "--timeout=1", *form).returncode == 6


def test_usage_has_a_column_of_tokens(charonia: CommandLine) -> None:
    charonia.run("chat", "messages_model", "one two")
    assert "TOKENS" in charonia.tell("usage")
    assert all("prompt_tokens" in json.loads(line) for line in charonia.run("usage").stdout.splitlines())
