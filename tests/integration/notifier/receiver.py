"""A receiver on loopback, and deliveries to it."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import msgspec
from cryptography.fernet import Fernet

from common.security.encryption import Encryptor
from common.security.ssrf import AddressPolicy
from common.security.webhook_signatures import new_secret
from services.notifier.claims.store import ClaimedDelivery
from services.notifier.deliveries.sender import Sender
from services.notifier.delivery_attempts.result import AttemptResult

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

LOCAL = AddressPolicy.parse(["127.0.0.0/8", "::1/128"], allow_http=True)  # `localhost` may be either
SECONDS = 20.0  # deadline of an attempt, which no test reaches
SECRET = new_secret("hmac")
ENCRYPTOR = Encryptor([Fernet.generate_key().decode()])
BODY = b'{"b":1, "a": "\xc3\xa9"}'


def claim(url: str, **changes: object) -> ClaimedDelivery:
    made = ClaimedDelivery(
        id=UUID(int=1),
        tenant_id=UUID(int=5),
        job_id=UUID(int=2),
        webhook_id=None,
        endpoint_id=UUID(int=3),
        event_type="job.succeeded",
        attempt=1,
        url=url,
        traceparent="",
        headers=None,
        body=BODY,
        secrets=[ENCRYPTOR.encrypt(SECRET.encode())],
        claimed_at=datetime.datetime.now(datetime.UTC),
        age=0.0,
        tries=0,
        event_age=0.0,
    )
    return msgspec.structs.replace(made, **changes)


class Receiver:
    """A server on a free port. It answers each request with `answer`, and keeps the requests."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(len(BODY)))
                await self.answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receive(
    answer: Answer, context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer)
    server = await asyncio.start_server(receiver.serve, host, 0, ssl=context)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


def write(response: bytes) -> Answer:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(response)
        await writer.drain()

    return answer


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: session=1\r\n\r\nok"


async def attempt(sender: Sender, answer: Answer) -> AttemptResult:
    async with receive(answer) as receiver:
        return await sender.send(claim(f"http://127.0.0.1:{receiver.port}/hook"))
