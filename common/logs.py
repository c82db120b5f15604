"""One line per outcome, stable field names, as text for people or JSON for machines. Never a secret or a payload."""

import json
import logging
import sys
import time
from typing import Literal

FIELDS = "charonia_fields"  # the attribute of a LogRecord that carries the fields


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}"
        fields = "".join(f" {name}={value}" for name, value in getattr(record, FIELDS, {}).items())
        trouble = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{stamp} {record.levelname.lower():7} {record.getMessage()}{fields}{trouble}"


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"time": stamp, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= {name: str(value) for name, value in getattr(record, FIELDS, {}).items()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


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


def configure(style: Literal["text", "json"], level: str) -> None:
    """Sends every line to standard error; libraries speak from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("charonia").setLevel(level)
