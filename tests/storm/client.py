"""A client that goes to the next gateway where one does not answer, as a load balancer would."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeVar

import aiohttp
import msgspec

from tests.storm.ledger import Call, Outcome, What

CALL_SECONDS = 4.0
PAUSE_SECONDS = 0.25  # before the next gateway is asked
READ_SECONDS = 60.0
CONNECTIONS = 300

T = TypeVar("T")


class Accepted(msgspec.Struct, frozen=True):
    """What is needed of the job in an answer."""

    id: str
    status: str


class Unanswered(Exception):
    """No gateway answers."""


class Missing(Exception):
    """There is no such thing."""


class Client:
    def __init__(self, session: aiohttp.ClientSession, gateways: Sequence[str]) -> None:
        self.session = session
        self.gateways = gateways
        self.turn = itertools.cycle(gateways)

    async def post(self, path: str, body: Mapping[str, object] | None = None) -> tuple[int | None, bytes, bool]:
        """One try at one gateway: the status, the body, and whether it is sure what came of it where there is none."""
        content = None if body is None else msgspec.json.encode(body)
        try:
            async with self.session.post(next(self.turn) + path, data=content) as answer:
                return answer.status, await answer.read(), True
        except aiohttp.ClientConnectorError as error:
            return None, str(error).encode(), True
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return None, repr(error).encode(), False

    async def call(
        self, what: What, path: str, body: Mapping[str, object] | None = None
    ) -> tuple[Call, Accepted | None]:
        """One try, judged: only a refused connection and an answer below 500 tell surely that nothing was accepted."""
        began = time.time()
        status, content, sure = await self.post(path, body)
        job = msgspec.json.decode(content, type=Accepted) if status is not None and status < 300 else None
        outcome: Outcome = "accepted" if job else "refused" if sure and (status or 0) < 500 else "unknown"
        detail = job.status if job else content.decode(errors="replace")[:300]
        return Call(what, outcome, status, began, time.time(), detail), job

    async def create(self, path: str, body: Mapping[str, object], kind: type[T]) -> T:
        """What POST answers where everything serves; raises Unanswered elsewhere."""
        status, content, _ = await self.post(path, body)
        if status != HTTPStatus.CREATED:
            raise Unanswered(f"POST {path}: {status} {content.decode(errors='replace')}")
        return msgspec.json.decode(content, type=kind)

    async def read(self, path: str, kind: type[T], within: float = READ_SECONDS) -> T:
        """What GET answers, from whichever gateway; raises Unanswered, and Missing for 404."""
        deadline = time.monotonic() + within
        seen = ""
        while time.monotonic() < deadline:
            try:
                async with self.session.get(next(self.turn) + path) as answer:
                    if answer.status == HTTPStatus.OK:
                        return msgspec.json.decode(await answer.read(), type=kind)
                    if answer.status == HTTPStatus.NOT_FOUND:
                        raise Missing(path)
                    seen = f"{answer.status} {await answer.text()}"
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                seen = repr(error)
            await asyncio.sleep(PAUSE_SECONDS)
        raise Unanswered(f"GET {path}: {seen}")


@asynccontextmanager
async def open_client(gateways: Sequence[str], key: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connector, timeout = aiohttp.TCPConnector(limit=CONNECTIONS), aiohttp.ClientTimeout(total=CALL_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers, trust_env=False) as session:
        yield Client(session, gateways)
