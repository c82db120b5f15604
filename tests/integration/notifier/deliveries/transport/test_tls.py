"""TLS: each error has its own name, and no request reaches the wrong server."""

import asyncio
import contextlib
import ssl
import warnings
from pathlib import Path

import pytest

from common.http_client import client
from services.notifier.deliveries.sender import Sender
from services.notifier.delivery_attempts.result import AttemptError, AttemptResult
from tests.integration.notifier.conftest import Names
from tests.integration.notifier.receiver import (
    BODY,
    ENCRYPTOR,
    LOCAL,
    OK,
    SECONDS,
    Answer,
    Receiver,
    claim,
    receive,
    write,
)
from tests.support.receivers.certificate_authority import Authority
from tests.support.receivers.raw_server import RawServer


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def trust(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))


async def refuse(context: ssl.SSLContext, host: str = "127.0.0.1") -> AttemptError | None:
    """Return the error of two attempts, after which the server has received nothing."""
    sender = Sender.open(ENCRYPTOR, LOCAL, timeout=SECONDS, concurrency=10)
    with RawServer(context=context) as server:
        results = [await sender.send(claim(f"https://{host}:{server.port}/")) for _ in range(2)]
    await sender.close()
    assert results[0].error == results[1].error
    assert [(each.status_code, each.internal) for each in results] == [(None, False)] * 2
    assert (server.received, len(server.tls_errors)) == ([], 2)
    return results[0].error


async def deliver(context: ssl.SSLContext, host: str = "127.0.0.1") -> Receiver:
    """Return a receiver that got two deliveries."""
    sender = Sender.open(ENCRYPTOR, LOCAL, timeout=SECONDS, concurrency=10)
    async with receive(write(OK), context) as receiver:
        results = [await sender.send(claim(f"https://{host}:{receiver.port}/")) for _ in range(2)]
    await sender.close()
    assert [(each.error, each.status_code) for each in results] == [(None, 200)] * 2
    assert (receiver.connections, receiver.bodies) == (1, [BODY, BODY])  # kept open between deliveries
    return receiver


async def test_a_good_certificate(authority: Authority) -> None:
    await deliver(authority.serve())


async def test_a_certificate_for_the_name_is_enough(authority: Authority, names: Names) -> None:
    names["receiver.example"] = ["127.0.0.1"]
    names_sent: list[str | None] = []
    context = authority.serve(host="receiver.example")
    context.sni_callback = lambda _socket, name, _context: names_sent.append(name)
    receiver = await deliver(context, "receiver.example")
    assert names_sent == ["receiver.example"]
    assert f"host: receiver.example:{receiver.port}\r\n".encode() in receiver.heads[0].lower()


async def test_a_certificate_for_the_address_does_not_cover_the_name(authority: Authority, names: Names) -> None:
    names["receiver.example"] = ["127.0.0.1"]
    assert await refuse(authority.serve(host="127.0.0.1"), "receiver.example") == AttemptError.TLS_HOSTNAME


async def test_an_expired_certificate(authority: Authority) -> None:
    assert await refuse(authority.serve(days=-1)) == AttemptError.TLS_EXPIRED


async def test_the_certificate_of_another_host(authority: Authority) -> None:
    assert await refuse(authority.serve(host="127.0.0.2")) == AttemptError.TLS_HOSTNAME


async def test_an_untrusted_certificate(tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    assert await refuse(stranger.serve()) == AttemptError.TLS_UNTRUSTED  # by an unknown authority
    assert await refuse(stranger.serve_itself()) == AttemptError.TLS_UNTRUSTED


async def test_an_old_protocol(authority: Authority) -> None:
    context = authority.serve()
    context.set_ciphers("ALL:@SECLEVEL=0")  # otherwise the server has no cipher to offer
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    assert await refuse(context) == AttemptError.TLS_PROTOCOL


async def test_no_common_cipher(authority: Authority) -> None:
    context = authority.serve()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA")  # without forward secrecy
    assert await refuse(context) == AttemptError.TLS_PROTOCOL


async def attempt(serve: Answer) -> AttemptResult:
    """Attempt a delivery to a server without TLS."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            await serve(reader, writer)

    sender = Sender.open(ENCRYPTOR, LOCAL, timeout=SECONDS, concurrency=10)
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    result = await sender.send(claim(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
    server.close()
    await sender.close()
    return result


async def test_a_server_without_tls() -> None:
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65536))
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        heard.append(await reader.read())

    result = await attempt(talk)
    assert (result.error, result.internal) == (AttemptError.TLS_PROTOCOL, False)
    assert not any(BODY in each or b"POST" in each for each in heard)


async def test_a_server_that_closes_during_the_handshake() -> None:
    async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(65536)

    result = await attempt(hang_up)
    assert (result.error, result.internal) == (AttemptError.CONNECTION_RESET, False)


async def test_a_server_that_never_answers_the_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_SHARE", 0.1)  # of the deadline, so that no stall reaches both at once

    async def wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    result = await attempt(wait)
    assert (result.error, result.internal) == (AttemptError.CONNECT_TIMEOUT, False)
