"""The sender and certificates: each fault has its own name, and nothing is said to a server that is not the one."""

import asyncio
import contextlib
import ssl
import warnings
from pathlib import Path

import pytest

from services.notifier.outcome import Fault, Outcome
from services.notifier.sender import Sender
from tests.authority import Authority
from tests.integration.notifier.conftest import Names
from tests.integration.notifier.receiver import (
    BODY,
    LOCAL,
    OK,
    SEALER,
    TIMEOUT,
    Answer,
    Receiver,
    claim,
    receive,
    write,
)
from tests.raw_server import RawServer

SECONDS = 20.0  # of an attempt; nothing here waits for it, except where it says TIMEOUT


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def trust(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))


async def refuse(context: ssl.SSLContext, host: str = "127.0.0.1") -> Fault | None:
    """What two attempts at a server came to, that nothing was said to."""
    sender = Sender.open(SEALER, LOCAL, timeout=SECONDS, concurrency=10)
    with RawServer(context=context) as server:
        outcomes = [await sender.send(claim(f"https://{host}:{server.port}/")) for _ in range(2)]
    await sender.close()
    assert outcomes[0].fault == outcomes[1].fault
    assert [(each.status_code, each.ours) for each in outcomes] == [(None, False)] * 2
    assert (server.heard, len(server.refused)) == ([], 2)
    return outcomes[0].fault


async def deliver(context: ssl.SSLContext, host: str = "127.0.0.1") -> Receiver:
    """A receiver that two deliveries came to."""
    sender = Sender.open(SEALER, LOCAL, timeout=SECONDS, concurrency=10)
    async with receive(write(OK), context) as receiver:
        outcomes = [await sender.send(claim(f"https://{host}:{receiver.port}/")) for _ in range(2)]
    await sender.close()
    assert [(each.fault, each.status_code) for each in outcomes] == [(None, 200)] * 2
    assert (receiver.connections, receiver.bodies) == (1, [BODY, BODY])  # kept open between deliveries
    return receiver


async def test_a_good_certificate(authority: Authority) -> None:
    await deliver(authority.serve())


async def test_a_certificate_for_the_name_whatever_the_address(authority: Authority, names: Names) -> None:
    names["receiver.example"] = ["127.0.0.1"]
    asked: list[str | None] = []
    context = authority.serve(host="receiver.example")
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    receiver = await deliver(context, "receiver.example")
    assert asked == ["receiver.example"]
    assert f"host: receiver.example:{receiver.port}\r\n".encode() in receiver.heads[0].lower()


async def test_a_certificate_for_the_address_is_none_for_the_name(authority: Authority, names: Names) -> None:
    names["receiver.example"] = ["127.0.0.1"]
    assert await refuse(authority.serve(host="127.0.0.1"), "receiver.example") == Fault.TLS_HOSTNAME


async def test_an_expired_certificate(authority: Authority) -> None:
    assert await refuse(authority.serve(days=-1)) == Fault.TLS_EXPIRED


async def test_the_certificate_of_another_host(authority: Authority) -> None:
    assert await refuse(authority.serve(host="127.0.0.2")) == Fault.TLS_HOSTNAME


async def test_a_certificate_nobody_has_vouched_for(tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    assert await refuse(stranger.serve()) == Fault.TLS_UNTRUSTED  # by an unknown authority
    assert await refuse(stranger.serve_itself()) == Fault.TLS_UNTRUSTED


async def test_an_old_protocol(authority: Authority) -> None:
    context = authority.serve()
    context.set_ciphers("ALL:@SECLEVEL=0")  # else the server itself has nothing to offer
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    assert await refuse(context) == Fault.TLS_PROTOCOL


async def test_no_common_cipher(authority: Authority) -> None:
    context = authority.serve()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA")  # without forward secrecy
    assert await refuse(context) == Fault.TLS_PROTOCOL


async def attempt(serve: Answer, timeout: float = SECONDS) -> Outcome:
    """At a server that does not speak TLS."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            await serve(reader, writer)

    sender = Sender.open(SEALER, LOCAL, timeout=timeout, concurrency=10)
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    outcome = await sender.send(claim(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
    server.close()
    await sender.close()
    return outcome


async def test_a_server_without_tls() -> None:
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65536))
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        heard.append(await reader.read())

    outcome = await attempt(talk)
    assert (outcome.fault, outcome.ours) == (Fault.TLS_PROTOCOL, False)
    assert not any(BODY in each or b"POST" in each for each in heard)


async def test_a_server_that_hangs_up_instead_of_shaking_hands() -> None:
    async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(65536)

    outcome = await attempt(hang_up)
    assert (outcome.fault, outcome.ours) == (Fault.CONNECTION_RESET, False)


async def test_a_server_that_never_shakes_hands() -> None:
    async def wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    outcome = await attempt(wait, TIMEOUT)
    assert (outcome.fault, outcome.ours) == (Fault.CONNECT_TIMEOUT, False)
