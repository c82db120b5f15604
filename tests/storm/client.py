"""A client that calls the next gateway if one does not respond, as a load balancer would."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeVar

import aiohttp
import msgspec

from tests.storm.storm_log import Call, Operation, Outcome

CALL_SECONDS = 4.0
PAUSE_SECONDS = 0.25  # pause before the next gateway is called
READ_SECONDS = 60.0
CONNECTIONS = 300

T = TypeVar("T")


class Accepted(msgspec.Struct, frozen=True):
    """The needed fields of a job in a response."""

    id: str
    status: str


class NoResponse(Exception):
    """No gateway responded as expected."""


class NotFound(Exception):
    """The object does not exist."""


class Client:
    def __init__(self, session: aiohttp.ClientSession, gateways: Sequence[str]) -> None:
        self._session = session
        self._gateways = gateways
        self._next_gateway = itertools.cycle(gateways)

    async def _post(
        self, path: str, body: Mapping[str, object] | None = None, seconds: float = CALL_SECONDS
    ) -> tuple[int | None, bytes, bool]:
        """Send one POST to one gateway.

        Return the status, the body, and whether the outcome is certain: a response, or a refused connection.
        """
        content = None if body is None else msgspec.json.encode(body)
        url, timeout = next(self._next_gateway) + path, aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._session.post(url, data=content, timeout=timeout) as response:
                return response.status, await response.read(), True
        except aiohttp.ClientConnectorError as error:
            return None, str(error).encode(), True
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return None, repr(error).encode(), False

    async def call(
        self, operation: Operation, path: str, body: Mapping[str, object] | None = None
    ) -> tuple[Call, Accepted | None]:
        """Make one call and classify it.

        Only a refused connection and a status below 500 prove that nothing was accepted.
        """
        began = time.time()
        status, content, certain = await self._post(path, body)
        job = msgspec.json.decode(content, type=Accepted) if status is not None and status < 300 else None
        outcome: Outcome = "accepted" if job else "refused" if certain and (status or 0) < 500 else "unknown"
        detail = job.status if job else content.decode(errors="replace")[:300]
        return Call(operation, outcome, status, began, time.time(), detail), job

    async def create(self, path: str, body: Mapping[str, object], kind: type[T]) -> T:
        """Return the response to a POST while all gateways are healthy. Raise NoResponse otherwise."""
        status, content, _ = await self._post(path, body, READ_SECONDS)
        if status != HTTPStatus.CREATED:
            raise NoResponse(f"POST {path}: {status} {content.decode(errors='replace')}")
        return msgspec.json.decode(content, type=kind)

    async def read(self, path: str, kind: type[T], within: float = READ_SECONDS) -> T:
        """Return the response to a GET from any gateway. Raise NoResponse at the deadline, and NotFound for 404."""
        deadline = time.monotonic() + within
        last_error = ""
        while time.monotonic() < deadline:
            try:
                async with self._session.get(next(self._next_gateway) + path) as response:
                    if response.status == HTTPStatus.OK:
                        return msgspec.json.decode(await response.read(), type=kind)
                    if response.status == HTTPStatus.NOT_FOUND:
                        raise NotFound(path)
                    last_error = f"{response.status} {await response.text()}"
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                last_error = repr(error)
            await asyncio.sleep(PAUSE_SECONDS)
        raise NoResponse(f"GET {path}: {last_error}")


@asynccontextmanager
async def open_client(gateways: Sequence[str], key: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connector, timeout = aiohttp.TCPConnector(limit=CONNECTIONS), aiohttp.ClientTimeout(total=CALL_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers, trust_env=False) as session:
        yield Client(session, gateways)
