"""The sender against real sockets: what arrives, and a name for every failure."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from cryptography.fernet import Fernet
from standardwebhooks import Webhook

from common.addresses import Policy
from common.sealing import Sealer
from services.notifier.outcome import Fault
from services.notifier.sender import Sender
from tests.integration.notifier.receiver import BODY, LOCAL, OK, SEALER, SECRET, TIMEOUT, attempt, claim, receive, write


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    sender = Sender.open(SEALER, LOCAL, timeout=TIMEOUT, concurrency=10)
    yield sender
    await sender.close()


async def test_a_delivery_arrives_signed_byte_for_byte(sender: Sender) -> None:
    async with receive(write(OK)) as receiver:
        for _ in range(2):
            outcome = await sender.send(claim(f"http://localhost:{receiver.port}/hook?q=1"))
            assert (outcome.status_code, outcome.fault, outcome.response) == (200, None, b"ok")
    assert receiver.bodies == [BODY, BODY]
    assert receiver.connections == 1  # kept open between deliveries
    lines = receiver.heads[1].decode().lower().splitlines()
    assert lines[0] == "post /hook?q=1 http/1.1"
    assert not any(line.startswith("cookie") for line in lines)
    head = dict(line.split(": ", 1) for line in receiver.heads[1].decode().splitlines()[1:] if line)
    headers = {name.lower(): value for name, value in head.items()}
    assert headers["host"] == f"localhost:{receiver.port}"
    assert headers["accept-encoding"] == "identity"
    assert headers["webhook-id"].startswith("dlv_")
    Webhook(SECRET).verify(receiver.bodies[1], headers)


async def test_custom_headers_go_along(sender: Sender) -> None:
    async with receive(write(OK)) as receiver:
        sealed = SEALER.seal(b'{"Authorization": "Bearer x", "webhook-id": "evil"}')
        await sender.send(claim(f"http://127.0.0.1:{receiver.port}/", headers=sealed))
    assert b"bearer x" in receiver.heads[0].lower()
    assert b"evil" not in receiver.heads[0]


@pytest.mark.parametrize(
    ("response", "fault", "status"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "http_status", 302),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "http_status", 500),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000, "response_too_large", 200),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000, "http_status", 500),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "timeout", 200),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n", "bad_response", None),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20000 + b"\r\n\r\n", "bad_response", None),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n", "bad_response", None),
    ],
    ids=["redirect", "error", "large", "large-error", "stalled", "not-http", "long-header", "many-headers"],
)
async def test_answers_that_are_no_success(sender: Sender, response: bytes, fault: str, status: int | None) -> None:
    outcome = await attempt(sender, write(response))
    assert (outcome.fault, outcome.status_code, outcome.ours) == (fault, status, False)
    assert len(outcome.response) <= 16 * 1024


async def test_compressed_answers_are_kept_as_they_came(sender: Sender) -> None:
    bomb = b"\x1f\x8b\x08not really gzip"
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    outcome = await attempt(sender, write(head + bomb))
    assert (outcome.fault, outcome.response) == (None, bomb)


async def test_an_endless_answer_is_cut_off(sender: Sender) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
            await writer.drain()

    assert (await attempt(sender, answer)).fault == Fault.RESPONSE_TOO_LARGE


async def test_a_dripping_answer_meets_the_deadline(sender: Sender) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.05)

    start = time.perf_counter()
    outcome = await attempt(sender, answer)
    assert outcome.fault == Fault.TIMEOUT
    assert time.perf_counter() - start < TIMEOUT + 1
    assert outcome.response.startswith(b".")


async def test_a_lost_connection(sender: Sender) -> None:
    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def close_half_way(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        writer.close()

    for answer in (close, close_half_way):
        assert (await attempt(sender, answer)).fault == Fault.CONNECTION_RESET


async def test_nobody_listens(sender: Sender) -> None:
    async with receive(write(OK)) as receiver:
        port = receiver.port
    assert (await sender.send(claim(f"http://127.0.0.1:{port}/"))).fault == Fault.CONNECT_REFUSED


async def test_a_host_that_does_not_take_the_connection(sender: Sender) -> None:
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # more than its queue takes; Linux then drops what asks for a connection
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        outcome = await sender.send(claim(f"http://127.0.0.1:{full.getsockname()[1]}/"))
    assert outcome.fault == Fault.CONNECT_TIMEOUT


async def test_addresses_are_checked_at_every_send(sender: Sender) -> None:
    strict = Sender.open(SEALER, Policy(allow_http=True), timeout=TIMEOUT, concurrency=10)
    async with receive(write(OK)) as receiver:
        for host in ("localhost", "127.0.0.1", "2130706433", "127.1", "[::ffff:127.0.0.1]"):
            outcome = await strict.send(claim(f"http://{host}:{receiver.port}/"))
            assert (host, outcome.fault) == (host, Fault.ADDRESS_REFUSED)
    assert receiver.connections == 0
    assert (await sender.send(claim("http://10.0.0.1/"))).fault == Fault.ADDRESS_REFUSED
    await strict.close()


async def test_the_address_is_checked_once_more_where_the_url_was_not(sender: Sender) -> None:
    strict = Sender.open(SEALER, Policy(allow_http=True), timeout=TIMEOUT, concurrency=10)
    async with receive(write(OK)) as receiver:
        for host in ("localhost", "127.0.0.1"):
            request = strict.build(httpx.URL(f"http://{host}:{receiver.port}/"), BODY, {})
            assert (await strict.exchange(request)).fault == Fault.ADDRESS_REFUSED
    assert receiver.connections == 0
    await strict.close()


async def test_a_secret_sealed_with_another_key_is_our_own_fault(sender: Sender) -> None:
    other = Sealer([Fernet.generate_key().decode()])
    outcome = await sender.send(claim("http://127.0.0.1:1/", secrets=[other.seal(b"whsec_AAAA")]))
    assert (outcome.fault, outcome.ours) == (Fault.SECRET_UNREADABLE, True)
