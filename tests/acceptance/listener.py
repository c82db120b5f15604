"""A client that listens to what happens to a job."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec


@dataclass(frozen=True)
class Told:
    """An event as it came; `body` as in a webhook."""

    id: str
    type: str
    body: dict[str, Any]

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = self.body["data"]
        return found

    @property
    def tokens(self) -> list[str]:
        """The words in a response of the model `tokens`."""
        return [word for output in self.data["outputs"] for word in output["data"]]


async def listen(http: httpx.AsyncClient, job_id: str, last: str | None = None) -> AsyncGenerator[Told, None]:
    """The events of a stream (HTML Living Standard, 9.2), from behind the last one that was heard, until it ends."""
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
    async with http.stream("GET", f"/v1/jobs/{job_id}/events", headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
            elif "data" in fields:
                yield Told(fields["id"], fields["event"], msgspec.json.decode(fields["data"]))
                fields = {}


async def hear(http: httpx.AsyncClient, job_id: str, last: str | None = None) -> list[Told]:
    """All of a stream."""
    return [told async for told in listen(http, job_id, last)]
