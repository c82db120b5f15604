"""One line per outcome, stable field names, as text for people or JSON for machines. Never a secret or a payload."""

import logging
import sys
import time
from typing import Literal

import msgspec

Style = Literal["auto", "text", "json"]
FIELDS = "charonia_fields"  # the attribute of a LogRecord that carries the fields

# What libraries say beside a line of ours, each time anew; or of any client that speaks no HTTP, or (as an error) of
# any WebSocket that is refused as a request is.
CHATTER = {
    "aiormq.connection": ("error when creating transport",),
    "uvicorn.error": ("Invalid HTTP request received", "ASGI callable returned without completing handshake"),
}


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}"
        fields = "".join(f" {name}={value}" for name, value in getattr(record, FIELDS, {}).items())
        trouble = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{stamp} {record.levelname.lower():7} {record.getMessage()}{fields}{trouble}"


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line: dict[str, object] = {"time": stamp, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= {name: simplify(value) for name, value in getattr(record, FIELDS, {}).items()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def simplify(value: object) -> object:
    return value if value is None or type(value) in (bool, int, float) else str(value)


class Log:
    """A logger whose every line is an event's name and its fields."""

    def __init__(self, name: str) -> None:
        self.logger = logging.getLogger(f"charonia.{name}")

    def info(self, event: str, **fields: object) -> None:
        self.logger.info(event, extra={FIELDS: fields})

    def warning(self, event: str, **fields: object) -> None:
        self.logger.warning(event, extra={FIELDS: fields})

    def error(self, event: str, **fields: object) -> None:
        self.logger.error(event, extra={FIELDS: fields})

    def exception(self, event: str, **fields: object) -> None:
        """Inside an except block: the line carries the traceback."""
        self.logger.exception(event, extra={FIELDS: fields})


def is_news(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(CHATTER[record.name])


def configure(style: Style, level: str) -> None:
    """Sends every line to standard error, by itself as text to a terminal only; libraries speak from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    as_text = sys.stderr.isatty() if style == "auto" else style == "text"
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    # No format of ours asks where or by whom a line was written, a third of its cost ("Optimization" in its docs).
    logging._srcfile = None
    logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("charonia").setLevel(level)
    for name in CHATTER:
        logging.getLogger(name).addFilter(is_news)
