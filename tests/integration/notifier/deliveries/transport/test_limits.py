"""The sender against receivers that hang, respond slowly, or send too much."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator

import pytest

from common.http_client import client
from services.notifier.deliveries.sender import MAX_READ_BYTES, Sender
from services.notifier.delivery_attempts.result import AttemptError
from tests.integration.notifier.receiver import ENCRYPTOR, LOCAL, OK, Answer, attempt, claim, receive, write
from tests.integration.waiting import until

DEADLINE = 4.0  # seconds of an attempt that reaches it
MARGIN = 12.0  # seconds after it, on a busy machine; without a deadline no response ends
SECONDS = 20.0  # deadline of an attempt that does not
LIMIT = 16 * 1024 * 1024  # more than the buffers of two sockets and asyncio


@pytest.fixture
async def hurried() -> AsyncIterator[Sender]:
    sender = Sender.open(ENCRYPTOR, LOCAL, timeout=DEADLINE, concurrency=10)
    yield sender
    await sender.close()


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    sender = Sender.open(ENCRYPTOR, LOCAL, timeout=SECONDS, concurrency=10)
    yield sender
    await sender.close()


@pytest.fixture
async def persistent(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sender]:
    """A sender that keeps idle connections open."""
    monkeypatch.setattr(client, "KEEP_ALIVE_SECONDS", 3600.0)
    sender = Sender.open(ENCRYPTOR, LOCAL, timeout=SECONDS, concurrency=10)
    yield sender
    await sender.close()


def drip(first: bytes, drop: bytes) -> Answer:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.05)

    return answer


class Flood:
    """Writes until the connection closes, and counts the accepted bytes."""

    def __init__(self, first: bytes, more: bytes) -> None:
        self.first = first
        self.more = more * (65536 // len(more) + 1)
        self.sent = 0
        self.ended = False

    async def answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.first)
        try:
            while self.sent < LIMIT:
                writer.write(self.more)
                await writer.drain()
                self.sent += len(self.more)
        finally:
            self.ended = True


DRIPS: tuple[tuple[bytes, bytes, int | None], ...] = (
    (b"HTTP/1.1 200 OK\r\nX: ", b"x", None),
    (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", None),
    (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", None),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b".", 200),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n.\r\n", 200),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x", 200),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", b"", 200),  # and then nothing
    (b"", b"", None),
)


async def test_one_deadline_for_every_slow_response(hurried: Sender) -> None:
    results = await asyncio.gather(*(attempt(hurried, drip(first, drop)) for first, drop, _ in DRIPS))
    for result, (first, drop, status) in zip(results, DRIPS, strict=True):
        assert (first, result.error, result.status_code) == (first, AttemptError.TIMEOUT, status)
        assert DEADLINE * 0.9 < result.seconds < DEADLINE + MARGIN
        assert result.response.startswith(b".") or drop != b"."  # what came is kept
        assert not result.internal


@pytest.mark.parametrize(
    ("first", "more", "error", "status"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n", b"x", "response_too_large", 200),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x", "response_too_large", 200),
        (b"HTTP/1.1 500 Oh\r\n\r\n", b"x", "http_status", 500),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x", "response_too_large", 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", "response_too_large", 200),
        (b"", b"HTTP/1.1 103 \r\n\r\n", "response_too_large", None),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", b"x", "http_status", 101),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", "bad_response", None),
        (b"HTTP/1.1 200 OK\r\nX-A: ", b"x", "bad_response", None),
        (b"HTTP/1.1 200 OK\r\n", b"x", "bad_response", None),
        (b"HTTP/1.1 200 ", b"x", "bad_response", None),
    ],
    ids=[
        "10-GB",
        "endless",
        "endless-error",
        "extension",
        "tiny-chunks",
        "interim",
        "upgrade",
        "headers",
        "value",
        "name",
        "reason",
    ],
)
async def test_a_flood_is_cut_off(sender: Sender, first: bytes, more: bytes, error: str, status: int | None) -> None:
    flood = Flood(first, more)
    result = await attempt(sender, flood.answer)
    assert (result.error, result.status_code) == (error, status)
    assert len(result.response) <= 16 * 1024
    await until(lambda: flood.ended, "the receiver lost its connection")
    assert flood.sent < LIMIT


async def test_a_flood_of_trailers_is_cut_off(sender: Sender) -> None:
    flood = Flood(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n", b"X-A: b\r\n")
    assert (await attempt(sender, flood.answer)).error == AttemptError.BAD_RESPONSE
    await until(lambda: flood.ended, "the receiver lost its connection")
    assert flood.sent < LIMIT


async def test_a_flood_after_a_response_is_cut_off(persistent: Sender) -> None:
    flood = Flood(b"", b"HTTP/1.1 204 \r\n\r\n")
    answered = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await answered.wait()
        await flood.answer(reader, writer)

    async with receive(answer) as receiver:
        result = await persistent.send(claim(f"http://127.0.0.1:{receiver.port}/"))
        assert (result.error, result.response) == (None, b"ok")
        answered.set()
        await until(lambda: flood.ended, "the receiver lost its connection")
    assert flood.sent < LIMIT


async def test_an_unrequested_response_is_not_read_as_the_next_one(persistent: Sender) -> None:
    kept, closed = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(receiver.heads) > 1:
            writer.write(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")
            return
        writer.write(OK)
        await kept.wait()
        writer.write(OK)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        closed.set()

    async with receive(answer) as receiver:
        url = f"http://127.0.0.1:{receiver.port}/"
        assert (await persistent.send(claim(url))).status_code == 200
        kept.set()
        await until(closed.is_set, "the sender closed the connection")
        assert (await persistent.send(claim(url))).status_code == 500
        assert receiver.connections == 2


@pytest.mark.parametrize("gap", [False, True], ids=["at-once", "later"])
@pytest.mark.parametrize(
    ("whole", "status", "body"),
    [(b"HTTP/1.1 204 No\r\n\r\n", 204, b""), (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\no", 200, b"o")],
)
async def test_data_after_a_complete_response_does_not_invalidate_it(
    persistent: Sender, whole: bytes, status: int, body: bytes, gap: bool
) -> None:
    """A body with a 204, or a body longer than announced, in the same packet or later."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in (whole, b"hello") if gap else (whole + b"hello",):
            writer.write(part)
            await writer.drain()

    async with receive(answer) as receiver:
        for _ in range(3):
            result = await persistent.send(claim(f"http://127.0.0.1:{receiver.port}/"))
            assert (result.error, result.status_code, result.response) == (None, status, body)


async def test_a_reason_phrase_may_have_any_encoding(sender: Sender) -> None:
    answer = "HTTP/1.1 200 Réussi\r\nContent-Length: 2\r\n\r\nok".encode("latin-1")
    assert (await attempt(sender, write(answer))).error is None


async def test_a_compression_bomb_is_not_inflated(sender: Sender) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(bytes(50_000_000)) + packer.flush()
    assert len(bomb) < MAX_READ_BYTES
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    result = await attempt(sender, write(head + bomb))
    assert (result.error, result.response) == (None, bomb[: 16 * 1024])


async def test_a_response_within_the_limits_may_have_hints_and_many_chunks(sender: Sender) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3
    body = b"10\r\n" + b"x" * 16 + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + b"X-A: b\r\n" * 100 + b"\r\n"
    result = await attempt(sender, write(hints + head + body * (MAX_READ_BYTES // 16) + b"0\r\n\r\n"))
    assert (result.error, result.status_code, result.response) == (None, 200, b"x" * 16 * 1024)
