"""A client that reads the stream of a job's events."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec


@dataclass(frozen=True)
class StreamedEvent:
    """An event as it was streamed. `body` has the shape of a webhook's body."""

    id: str
    type: str
    body: dict[str, Any]

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["data"]
        return found

    @property
    def tokens(self) -> list[str]:
        """Return the words in one response of the model `tokens`, without the space before each."""
        return [word.removeprefix(" ") for output in self.data["outputs"] for word in output["data"]]


async def stream_events(
    http: httpx.AsyncClient, job_id: str, last_id: str | None = None
) -> AsyncGenerator[StreamedEvent, None]:
    """Yield the events of a stream (HTML Living Standard, 9.2), after the event `last_id`, until it ends."""
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
    async with http.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers) as response:
        async for event in parse_events(response):
            yield event


async def parse_events(response: httpx.Response) -> AsyncGenerator[StreamedEvent, None]:
    """Yield the events in an answer that is a stream."""
    assert response.status_code == 200, await response.aread()
    assert response.headers["content-type"].startswith("text/event-stream")
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield StreamedEvent(fields["id"], fields["event"], msgspec.json.decode(fields["data"]))
            fields = {}


async def read_events(http: httpx.AsyncClient, job_id: str, last_id: str | None = None) -> list[StreamedEvent]:
    """Return all events of a stream."""
    return [event async for event in stream_events(http, job_id, last_id)]
