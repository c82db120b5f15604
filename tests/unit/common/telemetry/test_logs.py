"""Log lines."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from common.telemetry.logs import REMEMBERED, JsonFormatter, Log, LogFormat, TextFormatter, configure


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """The lines that the test logs."""
    handler = RecordList()
    logger = logging.getLogger("charonia")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield handler.records
    logger.removeHandler(handler)
    logger.setLevel(level)


class RecordList(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_text_is_for_people(lines: list[logging.LogRecord]) -> None:
    Log("test").warning("delivery.failed", delivery_id="dlv_1", attempt=2)
    lines[0].created, lines[0].msecs = 1.5, 500.0
    assert TextFormatter().format(lines[0]) == "00:00:01.500 warning delivery.failed delivery_id=dlv_1 attempt=2"


def test_json_is_for_machines(lines: list[logging.LogRecord]) -> None:
    Log("test").info("job.ended", job_id="job_1", text='ü"\n')
    lines[0].created, lines[0].msecs = 1.5, 500.0
    line = JsonFormatter().format(lines[0])
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:01.500Z",
        "level": "info",
        "event": "job.ended",
        "job_id": "job_1",
        "text": 'ü"\n',
    }


def test_an_exception_is_logged_with_its_traceback(lines: list[logging.LogRecord]) -> None:
    try:
        raise KeyError("missing")
    except KeyError:
        Log("test").exception("message.failed", queue="q")
    assert "KeyError: 'missing'" in json.loads(JsonFormatter().format(lines[0]))["exception"]
    assert TextFormatter().format(lines[0]).endswith("KeyError: 'missing'")


def test_a_text_from_elsewhere_cannot_forge_a_line(lines: list[logging.LogRecord]) -> None:
    forged = "gone\n00:00:02.000 info    job.ended\x1b[2J\u2028\x9b"
    try:
        raise ValueError(forged)
    except ValueError:
        Log("test").exception("message.failed", error=forged)
    first, *others = TextFormatter().format(lines[0]).splitlines()
    shown = r"gone\n00:00:02.000 info    job.ended\x1b[2J\u2028\x9b"
    assert first.endswith(f" message.failed error={shown}")
    assert others[-2:] == [r"  00:00:02.000 info    job.ended\x1b[2J", r"  \x9b"]
    assert all(each.startswith("  ") for each in others)


def test_a_field_may_have_any_name(lines: list[logging.LogRecord]) -> None:
    Log("test").error("odd", name="n", message="m", args="a")
    assert json.loads(JsonFormatter().format(lines[0])).items() >= {("name", "n"), ("message", "m"), ("args", "a")}


def test_numbers_stay_numbers_and_other_values_become_text(lines: list[logging.LogRecord]) -> None:
    Log("test").info("odd", count=2, share=0.5, done=True, nothing=None, error=KeyError("k"))
    found = json.loads(JsonFormatter().format(lines[0]))
    assert {name: found[name] for name in ("count", "share", "done", "nothing", "error")} == {
        "count": 2,
        "share": 0.5,
        "done": True,
        "nothing": None,
        "error": "'k'",
    }


@contextmanager
def restored() -> Iterator[None]:
    """Restore the configuration of logging after the block."""
    root, ours = logging.getLogger(), logging.getLogger("charonia")
    before, level = (root.handlers[:], root.level), ours.level
    try:
        yield
    finally:
        root.handlers[:], root.level = before
        ours.setLevel(level)


@pytest.mark.parametrize(
    ("style", "terminal", "kind"),
    [
        ("auto", True, TextFormatter),
        ("auto", False, JsonFormatter),
        ("text", False, TextFormatter),
        ("json", True, JsonFormatter),
    ],
)
def test_the_format_auto_is_text_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, style: LogFormat, terminal: bool, kind: type[logging.Formatter]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    with restored():
        configure(style, "INFO")
        assert type(logging.getLogger().handlers[0].formatter) is kind


def test_repeated_messages_of_libraries_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with restored():
        configure("text", "INFO")
        logging.getLogger("aiormq.connection").error("error when creating transport: %r", OSError())
        logging.getLogger("aiormq.connection").error("Unexpected connection close from remote %r, %r", "u", "frame")
        logging.getLogger("aiormq.connection").warning("Cancelling cause reader exited abnormally", exc_info=OSError())
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        logging.getLogger("uvicorn.error").error("ASGI callable returned without completing handshake.")
        logging.getLogger("aiormq.connection").warning("Connection %r was blocked by: %r", "c", "memory")
        logging.getLogger("uvicorn.error").error("Exception in ASGI application")
    logged = [line.split(maxsplit=2)[2] for line in capsys.readouterr().err.splitlines()]
    assert logged == ["Connection 'c' was blocked by: 'memory'", "Exception in ASGI application"]


def test_a_line_that_recurs_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log = Log("tests")
    for name in ("a", "b", "a", "b"):
        log.warn_once("odd", name=name)
    assert len(caplog.records) == 2
    for number in range(REMEMBERED):
        log.warn_once("odd", number=str(number))
    assert len(log._warned) <= REMEMBERED
