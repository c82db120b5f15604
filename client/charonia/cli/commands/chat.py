"""Talks with language models: chat."""

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Optional

import typer

from charonia.cli import options
from charonia.cli.arguments import InvalidArgument
from charonia.cli.chat.answers import Answer, ask, complete
from charonia.cli.completion import complete_models
from charonia.cli.registry import command
from charonia.cli.session import Session
from charonia.cli.terminal.state_line import StateLine
from charonia.requests import DEFAULT_WAIT

TIERS = {"high": "priority", "normal": "default", "low": "flex"}
STDIN = "-"
MAX_PROMPT = 16 * 1024 * 1024  # bytes of standard input

LanguageModel = Annotated[
    str, typer.Argument(metavar="MODEL", help="The name of a language model.", autocompletion=complete_models)
]
Prompt = Annotated[
    options.Text, typer.Argument(metavar="PROMPT", help="What to ask. Without it, or as -, standard input is read.")
]
System = Annotated[options.Text, typer.Option(help="How the model should answer.")]
MaxTokens = Annotated[options.Number, typer.Option(min=1, help="The most tokens of an answer.")]
Temperature = Annotated[Optional[float], typer.Option(min=0, max=2, help="How random answers are.")]  # noqa: UP045
Seed = Annotated[options.Number, typer.Option(help="A number with which a model repeats itself.")]
Stop = Annotated[options.Texts, typer.Option(metavar="TEXT", help="A text at which an answer ends. Repeatable.")]
Timeout = Annotated[float, typer.Option(min=0.001, help="How many seconds an answer may take; then it is canceled.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, opens=True, rich_help_panel="Jobs")(chat)


def chat(
    session: Session,
    model: LanguageModel,
    prompt: Prompt = None,
    system: System = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    seed: Seed = None,
    stop: Stop = None,
    priority: options.PriorityOption = None,
    metadata: options.MetadataOption = None,
    timeout: Timeout = DEFAULT_WAIT,
) -> None:
    """Ask a language model, and print its answer as it comes. Ctrl-C cancels it.

    For example: `charonia chat llama "Why is the sky blue?" --max-tokens 200`, or `git diff | charonia chat llama
    --system "Review this change."`. On a terminal, a command without PROMPT is a conversation until Ctrl-D.

    In a pipe, too, the answer is text. `--json` prints it as OpenAI's API has it, once it is complete.
    """
    settings = make_settings(model, max_tokens, temperature, seed, stop, priority, metadata)
    messages = [] if system is None else [{"role": "system", "content": system}]
    for content in read_prompts(session, prompt):
        messages.append({"role": "user", "content": content})
        request = {**settings, "messages": messages}
        if session.wants_json:
            print_whole(complete(session.client, request, timeout))
            continue
        answer = stream(session, request, timeout)
        messages.append({"role": "assistant", "content": answer.text})


def make_settings(
    model: str,
    max_tokens: int | None,
    temperature: float | None,
    seed: int | None,
    stop: list[str] | None,
    priority: str | None,
    metadata: list[str] | None,
) -> dict[str, Any]:
    """Return the request without its messages. Raise InvalidArgument."""
    labels = options.read_pairs("--metadata", metadata)
    given = {
        "model": model,
        "max_completion_tokens": max_tokens,
        "temperature": temperature,
        "seed": seed,
        "stop": stop or None,
        "service_tier": None if priority is None else TIERS[priority],
        "metadata": {name: to_text(value) for name, value in labels.items()} or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def to_text(value: Any) -> str:
    """Return a value of metadata, which is text in OpenAI's API."""
    return value if isinstance(value, str) else json.dumps(value)


def read_prompts(session: Session, prompt: str | None) -> Iterator[str]:
    """Yield what to ask: the argument, all of standard input, or line after line of a terminal.

    Raise InvalidArgument if there is nothing to ask.
    """
    if prompt is not None and prompt != STDIN:
        yield prompt
    elif sys.stdin.isatty() and prompt is None:
        session.note("Ctrl-D ends the conversation, and Ctrl-C cancels an answer.")
        yield from read_lines()
    else:
        yield read_input()


def read_input() -> str:
    """Return all of standard input as one prompt. Raise InvalidArgument if there is none."""
    content = sys.stdin.buffer.read(MAX_PROMPT + 1)
    if len(content) > MAX_PROMPT:
        raise InvalidArgument(f"standard input has more than {MAX_PROMPT} bytes; send less")
    try:
        text = content.decode().strip()
    except UnicodeDecodeError:
        raise InvalidArgument("standard input is not UTF-8; write text to it") from None
    if not text:
        raise InvalidArgument("there is nothing to ask; give a PROMPT, or write one to standard input")
    return text


def read_lines() -> Iterator[str]:
    """Yield the lines that somebody types, without empty ones, until the end of the input."""
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print()
            return
        if line:
            yield line


def print_whole(body: bytes) -> None:
    sys.stdout.buffer.write(body.replace(b"\n", b" ") + b"\n")
    sys.stdout.buffer.flush()


def stream(session: Session, request: dict[str, Any], timeout: float) -> Answer:
    """Print an answer as it comes, and tell its job and tokens."""
    writer = Writer(session)
    try:
        answer = ask(session.client, request, timeout, writer.begin, writer.write)
    except KeyboardInterrupt:
        writer.end()
        session.note(f"canceled: {writer.job_id}" if writer.job_id else "canceled")
        raise
    finally:
        writer.end()
    session.note(describe(answer))
    return answer


def describe(answer: Answer) -> str:
    """Return what is worth to know of an answer, in a line."""
    parts = [answer.job_id]
    if answer.usage is not None:
        parts.append(f"{answer.usage.prompt_tokens} + {answer.usage.completion_tokens} tokens")
    if answer.finish_reason == "length":
        parts.append("the answer was cut at the limit of tokens; see --max-tokens")
    return " · ".join(parts)


class Writer:
    """Shows that a job waits until its text comes, then the text."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._line: StateLine | None = None
        self._has_text = False
        self.job_id = ""

    def begin(self, answer: Answer) -> None:
        """Show the state of the job."""
        self.job_id = answer.job_id
        self._session.open_page(f"/jobs/{answer.job_id}")
        self._line = StateLine(self._session, answer.job_id)
        self._line.__enter__()
        self._line.show(f"{answer.job_id} submitted", waits=True)

    def write(self, text: str) -> None:
        self._stop_line()
        self._has_text = True
        self._session.print_text(text, end="", raw=True)

    def end(self) -> None:
        """End the line of the text, if there is any. Has no effect again."""
        self._stop_line()
        if self._has_text:
            self._session.print_text("", raw=True)
            self._has_text = False

    def _stop_line(self) -> None:
        if self._line is not None:
            self._line.stop()
            self._line = None
