"""Writes the events of a stream, in OpenAI's form and with its numbers. Pure.

The events of a response depend only on the history of its job, so each has the same number whenever and wherever it
is read. A client that has lost a stream reads the rest after the last number that it got.
"""

from typing import Any

import msgspec

from services.gateway.openai.problems import OpenAIError
from services.gateway.openai.responses.views import OpenAIResponse, OutputMessage, OutputText

PLACE = {"output_index": 0, "content_index": 0}  # an output is one text


class EventWriter:
    """Writes the events of one response. Those up to the number `after` are counted, but not written."""

    def __init__(self, message_id: str, after: int = -1) -> None:
        self._message_id = message_id
        self._after = after
        self._number = 0
        self._has_text = False

    @property
    def last(self) -> int:
        """The number of the last event so far; -1 before the first."""
        return self._number - 1

    def _write(self, kind: str, **fields: Any) -> list[bytes]:
        number = self._number
        self._number += 1
        return [frame(kind, {"type": kind, "sequence_number": number, **fields})] if number > self._after else []

    def write_state(self, kind: str, response: OpenAIResponse) -> list[bytes]:
        """Return an event with the whole response, such as `response.created`."""
        return self._write(kind, response=response)

    def write_text(self, text: str) -> list[bytes]:
        """Return the events of a piece of the text."""
        before = [] if self._has_text else self._begin_text()
        return before + self._write(
            "response.output_text.delta", item_id=self._message_id, delta=text, logprobs=[], **PLACE
        )

    def _begin_text(self) -> list[bytes]:
        """Return the events before a text."""
        self._has_text = True
        message = OutputMessage(id=self._message_id, status="in_progress", content=[])
        return [
            *self._write("response.output_item.added", output_index=0, item=message),
            *self._write("response.content_part.added", item_id=self._message_id, part=OutputText(""), **PLACE),
        ]

    def write_end(self, response: OpenAIResponse) -> list[bytes]:
        """Return the events of the end of a response. One with an answer ends its text."""
        events = []
        for message in response.output:
            (part,) = message.content
            events += [] if self._has_text else self._begin_text()
            events += self._write(
                "response.output_text.done", item_id=self._message_id, text=part.text, logprobs=[], **PLACE
            )
            events += self._write("response.content_part.done", item_id=self._message_id, part=part, **PLACE)
            events += self._write("response.output_item.done", output_index=0, item=message)
        # There is no event for a cancellation: the response in it says so.
        kind = response.status if response.status in ("completed", "incomplete") else "failed"
        return events + self.write_state(f"response.{kind}", response)

    def write_error(self, error: OpenAIError) -> bytes:
        """Return the event of a stream that cannot go on. Its number is that of the event before, to go on after it."""
        what = error.error
        fields = {"code": what.code, "message": what.message, "param": what.param}
        return frame("error", {"type": "error", "sequence_number": max(self.last, self._after), **fields})


def frame(kind: str, body: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(body))
