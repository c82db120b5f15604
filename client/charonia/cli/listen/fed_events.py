"""Events of the feed as they came, and how far they have been handled. Pure."""

from collections import deque
from datetime import datetime
from typing import Any

import msgspec

from charonia.errors import InvalidResponse
from charonia.schemas import Failure
from charonia.sse import ServerSentEvent


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What an event is about, such as a job: the fields that a line shows."""

    id: str = ""
    job_id: str | None = None
    model: str | None = None
    error: Failure | None = None
    counts: dict[str, int] = {}
    url: str | None = None


class _Body(msgspec.Struct, frozen=True):
    type: str = ""
    timestamp: datetime | None = None
    data: msgspec.Raw = msgspec.Raw(b"{}")


class FedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event. `body` has the bytes that its webhook has, and `position` is where the feed goes on after it."""

    position: str
    type: str
    timestamp: datetime | None
    subject: Subject
    body: bytes

    @property
    def id(self) -> str:
        return self.position.partition(".")[0]

    @property
    def order_key(self) -> str:
        """Events with the same key keep their order: those of a job."""
        return self.subject.job_id or self.subject.id or self.id

    def to_json(self) -> dict[str, Any]:
        """Return the event as it came, with its id and its position."""
        return {"id": self.id, "position": self.position} | msgspec.json.decode(self.body, type=dict[str, msgspec.Raw])


_decoder, _subject_decoder = msgspec.json.Decoder(_Body), msgspec.json.Decoder(Subject)


def read_fed(message: ServerSentEvent) -> FedEvent:
    """Return the event in a message of the feed. Raise InvalidResponse if it is none."""
    content = message.data.encode()
    try:
        body = _decoder.decode(content)
    except msgspec.DecodeError as error:
        raise InvalidResponse(f"not an event of Charonia: {error}; check the URL, and the version") from error
    return FedEvent(
        position=message.id, type=body.type, timestamp=body.timestamp, subject=_read_subject(body.data), body=content
    )


def _read_subject(data: msgspec.Raw) -> Subject:
    try:
        return _subject_decoder.decode(data)
    except msgspec.ValidationError:  # of a type that this version does not know
        return Subject()


class Progress:
    """Up to which position all events are handled. Later ones may be handled before earlier ones."""

    def __init__(self, position: str | None) -> None:
        self.position = position
        self._begun: deque[str] = deque()
        self._handled: set[str] = set()

    def begin(self, position: str) -> None:
        """Note an event, in the order of the feed."""
        self._begun.append(position)

    def finish(self, position: str) -> None:
        """Note that an event is handled."""
        self._handled.add(position)
        while self._begun and self._begun[0] in self._handled:
            self.position = self._begun.popleft()
            self._handled.remove(self.position)
