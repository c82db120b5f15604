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
    """The needed fields of a job or a batch in a response."""

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

    async def _send(
        self, method: str, path: str, content: bytes | None, *, key: str | None = None, seconds: float = CALL_SECONDS
    ) -> tuple[int | None, bytes, bool]:
        """Send one request to one gateway, with an idempotency key if there is one.

        Return the status, the body, and whether the outcome is certain: a response, or a refused connection.
        """
        url, timeout = next(self._next_gateway) + path, aiohttp.ClientTimeout(total=seconds)
        headers = {} if key is None else {"Idempotency-Key": key}
        try:
            sent = self._session.request(method, url, data=content, timeout=timeout, headers=headers)
            async with sent as response:
                return response.status, await response.read(), True
        except aiohttp.ClientConnectorError as error:
            return None, str(error).encode(), True
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return None, repr(error).encode(), False

    async def call(
        self, operation: Operation, path: str, content: bytes | None = None, *, key: str | None = None
    ) -> tuple[Call, Accepted | None]:
        """Make one call and classify it. Return what it made or changed, too, if it was accepted and nothing is erased.

        Only a refused connection and a status below 500 prove that nothing was accepted.
        """
        began = time.time()
        status, answer, certain = await self._send("POST", path, content, key=key)
        is_accepted = status is not None and status < HTTPStatus.MULTIPLE_CHOICES
        job = msgspec.json.decode(answer, type=Accepted) if is_accepted and answer else None
        outcome: Outcome = "accepted" if is_accepted else "refused" if certain and (status or 0) < 500 else "unknown"
        detail = job.status if job else answer.decode(errors="replace")[:300]
        return Call(operation, outcome, status, began, time.time(), detail), job

    async def create(self, path: str, body: Mapping[str, object], kind: type[T], *, method: str = "POST") -> T:
        """Return the response that something was made, while all gateways are healthy. Raise NoResponse otherwise."""
        status, answer, _ = await self._send(method, path, msgspec.json.encode(body), seconds=READ_SECONDS)
        if status != HTTPStatus.CREATED:
            raise NoResponse(f"{method} {path}: {status} {answer.decode(errors='replace')}")
        return msgspec.json.decode(answer, type=kind)

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
