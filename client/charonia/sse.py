"""Parses a stream of server-sent events (HTML Living Standard, 9.2). Pure."""

from typing import NamedTuple


class ServerSentEvent(NamedTuple):
    """`id` is where to resume after it."""

    id: str
    data: str


class Parser:
    """Takes the lines of a stream. `last_id` and `retry` (in seconds) are those to reconnect with."""

    def __init__(self) -> None:
        self.retry: float | None = None
        self._id = ""
        self._data: list[str] = []

    def feed(self, line: str) -> ServerSentEvent | None:
        """Return the event that this line completes, if it does."""
        if line:
            name, _, value = line.partition(":")
            self._take(name, value.removeprefix(" "))
            return None
        data, self._data = self._data, []
        return ServerSentEvent(self._id, "\n".join(data)) if data else None

    def _take(self, name: str, value: str) -> None:
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        elif name == "retry" and value.isdigit():
            self.retry = int(value) / 1000
