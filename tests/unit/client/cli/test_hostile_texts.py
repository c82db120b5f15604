"""No text from elsewhere controls the terminal: each command shows its control characters."""

import base64
import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from charonia.admin_schemas import Stats
from charonia.cli import main
from charonia.cli.completion import complete_models
from charonia.cli.exits import FAILED, REFUSED
from charonia.cli.listen.event_lines import EventLines
from charonia.cli.listen.fed_events import FedEvent, Subject
from charonia.cli.listen.forwarding import Delivery
from charonia.cli.listen.listener import Listener
from charonia.cli.listen.local_receiver import Answer
from charonia.cli.main import OK
from charonia.cli.registry import Group
from charonia.cli.session import Session
from charonia.cli.terminal.console import SafeConsole, show_text
from charonia.cli.terminal.state_line import Shown
from charonia.cli.terminal.top_view import Snapshot, TopView
from charonia.schemas import Failure
from charonia.webhook_signatures import sign
from rich.text import Text

from tests.support.api.hostile_gateway import HOSTILE, VISIBLE, serve_hostile
from tests.support.command_line import CONTROL, Terminal, make_environment

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
COMMANDS = [
    "models",
    "models x",
    "pipelines",
    "pipelines show x",
    "pipelines put x definition",
    "pipelines check x definition",
    "pipelines delete x --yes",
    "jobs",
    "job x",
    "job x --trace",
    "job refused",
    "cancel x refused",
    "retry x",
    "erase x --yes",
    "run refused a=1",
    "submit refused a=1",
    "watch x",
    "watch x --output out",
    "watch refused",
    "dead-letters",
    "dead-letters replay x",
    "deliveries --job x",
    "deliveries --webhook x",
    "delivery x",
    "redeliver x",
    "recover x --since 1h",
    "webhooks",
    "webhooks show x",
    "webhooks create http://x",
    "webhooks update x --url http://x",
    "webhooks delete x --yes",
    "webhooks test x",
    "webhooks enable x",
    "webhooks rotate x",
    "webhooks secret",
    "keys",
    "keys show x",
    "keys create x --scope read",
    "keys revoke x --yes",
    "files",
    "files show x",
    "files upload item",
    "files delete x --yes",
    "usage",
    "audit",
    "top",
]
# Tested below or in commands/test_chat.py, or nothing from elsewhere is in what they print.
OTHERS = {"listen", "verify", "batch", "login", "files download", "chat"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    with serve_hostile() as url:
        yield url


@pytest.fixture(autouse=True)
def own_folder(gateway: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"CHARONIA_URL": gateway, "CHARONIA_KEY": "k", "HOME": str(tmp_path), "COLUMNS": "500"}.items():
        monkeypatch.setenv(name, value)
    Path("item").write_text("1")
    Path("definition").write_text("{}")


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Return what a command prints, if it understands the gateway."""
    return "".join(run_apart(capsys, monkeypatch, *arguments))


def run_apart(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[str, str]:
    """Return what a command prints to standard output and to standard error."""
    monkeypatch.setattr(sys, "argv", ["charonia", *arguments])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code in (OK, FAILED, REFUSED)
    return capsys.readouterr()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_shows_control_characters(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = run(capsys, monkeypatch, *command.split(), "--no-json")
    assert OBEYED.findall(printed) == []
    if not re.match(
        "(keys|webhooks|files|pipelines) (delete|revoke)|(cancel|retry|erase|redeliver) x|.* --trace$", command
    ):
        assert r"\x1b]52;c;aGk=" in printed


@pytest.mark.parametrize("command", COMMANDS)
def test_json_has_the_objects_of_the_gateway_as_they_came(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = run_apart(capsys, monkeypatch, *command.split(), "--json")[0].splitlines()
    is_own_form = re.match("run|watch|dead-letters replay|(keys|webhooks|files|pipelines) (delete|revoke)", command)
    assert [json.loads(each).get("newer") for each in lines] == ([None if is_own_form else 1] * len(lines))
    assert bool(lines) == (not re.match("(job|watch) refused", command))


def test_every_command_is_tested() -> None:
    from charonia.cli.app import app
    from typer.main import get_command

    names: set[str] = set()
    for name, found in get_command(app).commands.items():  # type: ignore[attr-defined]
        names |= {f"{name} {each}" for each in found.commands} if isinstance(found, Group) else {name}
    tested = {" ".join(each.split()[:length]) for each in COMMANDS for length in (1, 2)}
    lists = {f"{each} list" for each in ("keys", "webhooks", "files", "dead-letters", "pipelines")}
    assert names - tested - lists - OTHERS == set()


def test_json_and_texts_in_a_pipe_are_as_they_came(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(run(capsys, monkeypatch, "watch", "x", "--json"))["outputs"] == {HOSTILE: [HOSTILE]}
    assert run(capsys, monkeypatch, "watch", "x", "--text") == f"{HOSTILE}\n"


def test_a_verified_webhook_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    secret, now = "whsec_" + base64.b64encode(b"s" * 24).decode(), datetime.now(timezone.utc)  # noqa: UP017
    event = {"type": HOSTILE, "timestamp": now.isoformat(), "data": {HOSTILE: HOSTILE}}
    body = json.dumps(event, ensure_ascii=False).encode()
    Path("body").write_bytes(body)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(now.timestamp()))}
    headers["webhook-signature"] = sign(secret, headers["webhook-id"], int(now.timestamp()), body)
    Path("headers").write_text(json.dumps(headers))
    printed = run(capsys, monkeypatch, "verify", "body", "--header-file", "headers", "--secret", secret, "--no-json")
    assert (OBEYED.findall(printed), VISIBLE in printed) == ([], True)


def test_events_and_receivers_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(timezone.utc)  # noqa: UP017
    subject = Subject(id=HOSTILE, model=HOSTILE, error=Failure(HOSTILE, f"{HOSTILE}\n12:00:00  job.succeeded"))
    event = FedEvent(position=HOSTILE, type=HOSTILE, timestamp=now, subject=subject, body=b"")
    lines = EventLines(Session(None, as_json=False))
    lines.show_event(event)
    lines.show_delivery(Delivery(event, tries=1), Answer(500, f"{HOSTILE}\n", 1.0), False)
    printed = capsys.readouterr().out
    assert (OBEYED.findall(printed), len(printed.splitlines()), printed.count(VISIBLE)) == ([], 2, 8)


def test_the_command_to_go_on_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    listener = Listener(Session(None, as_json=False), None, "1; reboot")
    listener._note_connection()
    listener.note_end("charonia listen", needs_secret=False)
    assert "go on from here: charonia listen --after '1; reboot'\n" in capsys.readouterr().err


def test_the_screen_of_top_shows_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    view = TopView(HOSTILE, Snapshot(stats=Stats(datetime.now().astimezone(), []), models=[], dead_letters=0))
    SafeConsole().print(view)
    view.fail(HOSTILE)
    SafeConsole().print(view, Shown(f"{HOSTILE}\n", 0.0))
    printed = capsys.readouterr().out
    assert (OBEYED.findall(printed), printed.count(r"\x1b]52")) == ([], 3)


def test_a_model_with_such_a_name_is_not_completed() -> None:
    assert complete_models("") == []


def test_styles_stay_around_what_is_shown() -> None:
    text = Text.assemble(("a\x1bb", "red"), "c\x9bd\ne\tf", style="bold")
    (line, *_rest) = SafeConsole().render_lines(text, pad=False)
    assert "".join(each.text for each in line) == r"a\x1bbc\x9bd"
    assert [each.text for each in line if each.style and each.style.color] == ["a", r"\x1b", "b"]
    assert show_text("a\r\nb").plain == "a\nb"


@pytest.mark.parametrize(
    "command", ["job x", "watch x", "watch x --text", "job refused", "models", "files upload item"]
)
def test_no_sequence_reaches_a_terminal(command: str, gateway: str, tmp_path: Path) -> None:
    """Only rich's own: styles, and moves of the cursor."""
    terminal = Terminal(command.split(), make_environment(gateway, "k", tmp_path), tmp_path)
    try:
        terminal.wait()
    finally:
        terminal.close()
    sequences = {each[0] for each in CONTROL.finditer(terminal.raw)}
    assert [each for each in sequences if not re.fullmatch(r"\x1b\[[?]?[0-9;]*[mAGHKhl]", each)] == []
    left = CONTROL.sub("", terminal.raw).replace("\r\n", "\n").replace("\r", "")
    assert OBEYED.findall(left) == []
    assert r"\x1b]52" in re.sub(r"\s", "", left)
