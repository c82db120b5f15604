"""The sender on real sockets: what arrives, and a name for every error."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from cryptography.fernet import Fernet
from standardwebhooks import Webhook

from common.http_client import client
from common.security.encryption import Encryptor
from common.security.ssrf import AddressPolicy
from services.notifier.deliveries.sender import Sender
from services.notifier.delivery_attempts.result import AttemptError
from tests.integration.notifier.receiver import (
    BODY,
    ENCRYPTOR,
    LOCAL,
    OK,
    SECONDS,
    SECRET,
    attempt,
    claim,
    receive,
    write,
)


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    sender = Sender.open(ENCRYPTOR, LOCAL, timeout=SECONDS, concurrency=10)
    yield sender
    await sender.close()


async def test_a_delivery_arrives_signed_byte_for_byte(sender: Sender) -> None:
    async with receive(write(OK)) as receiver:
        for _ in range(2):
            result = await sender.send(claim(f"http://localhost:{receiver.port}/hook?q=1"))
            assert (result.status_code, result.error, result.response) == (200, None, b"ok")
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


async def test_custom_headers_are_sent(sender: Sender) -> None:
    async with receive(write(OK)) as receiver:
        encrypted = ENCRYPTOR.encrypt(b'{"Authorization": "Bearer x", "webhook-id": "evil"}')
        await sender.send(claim(f"http://127.0.0.1:{receiver.port}/", headers=encrypted))
    assert b"bearer x" in receiver.heads[0].lower()
    assert b"evil" not in receiver.heads[0]


@pytest.mark.parametrize(
    ("response", "error", "status"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "http_status", 302),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "http_status", 500),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000, "response_too_large", 200),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000, "http_status", 500),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n", "bad_response", None),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20000 + b"\r\n\r\n", "bad_response", None),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n", "bad_response", None),
    ],
    ids=["redirect", "error", "large", "large-error", "not-http", "long-header", "many-headers"],
)
async def test_unsuccessful_responses(sender: Sender, response: bytes, error: str, status: int | None) -> None:
    result = await attempt(sender, write(response))
    assert (result.error, result.status_code, result.internal) == (error, status, False)
    assert len(result.response) <= 16 * 1024


async def test_compressed_responses_are_not_decompressed(sender: Sender) -> None:
    bomb = b"\x1f\x8b\x08not really gzip"
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    result = await attempt(sender, write(head + bomb))
    assert (result.error, result.response) == (None, bomb)


async def test_an_endless_response_is_cut_off(sender: Sender) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
            await writer.drain()

    assert (await attempt(sender, answer)).error == AttemptError.RESPONSE_TOO_LARGE


async def test_a_lost_connection(sender: Sender) -> None:
    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def close_half_way(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        writer.close()

    for answer in (close, close_half_way):
        assert (await attempt(sender, answer)).error == AttemptError.CONNECTION_RESET


async def test_a_port_without_a_listener(sender: Sender) -> None:
    async with receive(write(OK)) as receiver:
        port = receiver.port
    assert (await sender.send(claim(f"http://127.0.0.1:{port}/"))).error == AttemptError.CONNECT_REFUSED


@pytest.fixture
async def impatient(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sender]:
    """A sender that waits for a connection for a tenth of its deadline, so that no stall reaches both at once."""
    monkeypatch.setattr(client, "CONNECT_SHARE", 0.1)
    sender = Sender.open(ENCRYPTOR, LOCAL, timeout=SECONDS, concurrency=10)
    yield sender
    await sender.close()


async def test_a_host_that_does_not_accept_the_connection(impatient: Sender) -> None:
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # more than its backlog; Linux then drops new connections
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        result = await impatient.send(claim(f"http://127.0.0.1:{full.getsockname()[1]}/"))
    assert result.error == AttemptError.CONNECT_TIMEOUT


async def test_addresses_are_checked_at_every_send(sender: Sender) -> None:
    strict = Sender.open(ENCRYPTOR, AddressPolicy(allow_http=True), timeout=SECONDS, concurrency=10)
    async with receive(write(OK)) as receiver:
        for host in ("localhost", "127.0.0.1", "2130706433", "127.1", "[::ffff:127.0.0.1]"):
            result = await strict.send(claim(f"http://{host}:{receiver.port}/"))
            assert (host, result.error) == (host, AttemptError.ADDRESS_REFUSED)
    assert receiver.connections == 0
    assert (await sender.send(claim("http://10.0.0.1/"))).error == AttemptError.ADDRESS_REFUSED
    await strict.close()


async def test_the_address_is_checked_without_a_check_of_the_url(sender: Sender) -> None:
    strict = Sender.open(ENCRYPTOR, AddressPolicy(allow_http=True), timeout=SECONDS, concurrency=10)
    async with receive(write(OK)) as receiver:
        for host in ("localhost", "127.0.0.1"):
            request = strict.build_request(httpx.URL(f"http://{host}:{receiver.port}/"), BODY, {})
            assert (await strict.exchange(request)).error == AttemptError.ADDRESS_REFUSED
    assert receiver.connections == 0
    await strict.close()


async def test_a_secret_with_an_unknown_key_is_an_internal_error(sender: Sender) -> None:
    other = Encryptor([Fernet.generate_key().decode()])
    result = await sender.send(claim("http://127.0.0.1:1/", secrets=[other.encrypt(b"whsec_AAAA")]))
    assert (result.error, result.internal) == (AttemptError.SECRET_UNREADABLE, True)
