"""One line for each outcome, with stable field names, as text or JSON. No line has a secret or a payload."""

import logging
import sys
import time
from typing import Literal

import msgspec

LogFormat = Literal["auto", "text", "json"]
REMEMBERED = 1000  # lines that a logger does not repeat; beyond that, each may come once more
_FIELDS = "charonia_fields"  # the attribute of a LogRecord that carries the fields

# Messages that libraries repeat beside a line of ours, for each client that does not speak HTTP, and for each WebSocket
# that is refused.
_UNWANTED = {
    "aiormq.connection": (
        "error when creating transport",
        "Unexpected connection close from remote",
        "Cancelling cause reader exited abnormally",
    ),
    "uvicorn.error": ("Invalid HTTP request received", "ASGI callable returned without completing handshake"),
}


class TextFormatter(logging.Formatter):
    """Formats lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        stamp = time.strftime("%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}"
        fields = "".join(f" {name}={value}" for name, value in getattr(record, _FIELDS, {}).items())
        line = f"{stamp} {record.levelname.lower():7} {_show_controls(record.getMessage() + fields)}"
        trace = self.formatException(record.exc_info).splitlines() if record.exc_info else ()
        return "\n  ".join([line, *map(_show_controls, trace)])  # the message of an exception may have lines, too


def _show_controls(text: str) -> str:
    """Return the text as one line without control characters. Clients and models chose parts of it."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class JsonFormatter(logging.Formatter):
    """Formats lines for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line: dict[str, object] = {"time": stamp, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= {name: _to_json_value(value) for name, value in getattr(record, _FIELDS, {}).items()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def _to_json_value(value: object) -> object:
    return value if value is None or type(value) in (bool, int, float) else str(value)


class Log:
    """A logger whose lines are the name of an event and its fields."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"charonia.{name}")
        self._warned: set[tuple[object, ...]] = set()

    def info(self, event: str, **fields: object) -> None:
        """Log at INFO."""
        self._logger.info(event, extra={_FIELDS: fields})

    def warning(self, event: str, **fields: object) -> None:
        """Log at WARNING."""
        self._logger.warning(event, extra={_FIELDS: fields})

    def warn_once(self, event: str, **fields: str) -> None:
        """Log at WARNING what recurs, such as a row that cannot be read: once with the same fields."""
        line = event, *fields.items()
        if line in self._warned:
            return
        if len(self._warned) == REMEMBERED:
            self._warned.clear()
        self._warned.add(line)
        self.warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        """Log at ERROR."""
        self._logger.error(event, extra={_FIELDS: fields})

    def exception(self, event: str, raised: BaseException | None = None, /, **fields: object) -> None:
        """Log at ERROR, with the traceback of an exception, or of the one that is being handled."""
        self._logger.error(event, exc_info=raised or True, extra={_FIELDS: fields})


def _is_wanted(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_UNWANTED[record.name])


def configure(log_format: LogFormat, level: str) -> None:
    """Send every line to standard error. The format `auto` is text on a terminal. Libraries log from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    as_text = sys.stderr.isatty() if log_format == "auto" else log_format == "text"
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    # Our formats do not need the place or the process: a third of the cost ("Optimization" in the docs of logging).
    logging._srcfile = None
    logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("charonia").setLevel(level)
    for name in _UNWANTED:
        logging.getLogger(name).addFilter(_is_wanted)
