"""A steady load of small jobs. Their round trips show how quick the stack is before the faults and after them."""

import asyncio
import itertools
import time

import msgspec

from tests.storm.client import Client
from tests.storm.storm_log import STEADY, RoundTrip, StormLog

MODEL = "echo"
RATE = 5.0  # jobs per second: few enough to change nothing else, enough for a median


class SteadyLoad:
    """The jobs of a tenant of its own, so that no other tenant's backlog is before them."""

    def __init__(self, client: Client, url: str, log: StormLog) -> None:
        """`url` is that of the receiver."""
        self._client = client
        self._url = url
        self._log = log

    async def run(self, until: asyncio.Event) -> None:
        """Submit until `until` is set. Submits that find no gateway are not repeated."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as calls:
            for number in itertools.count(1):
                if until.is_set():
                    return
                calls.create_task(self._submit(f"{STEADY}{number}"))
                await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))

    async def _submit(self, path: str) -> None:
        self._log.round_trips[path] = trip = RoundTrip(time.time())
        body = {"model": MODEL, "inputs": {"x": [[1.0]]}, "webhook": {"url": self._url + path}}
        call, _ = await self._client.call("submit", "/v1/jobs", msgspec.json.encode(body))
        trip.accepted = call.outcome == "accepted"
