"""The sender behind an egress proxy: address checks, and internal errors."""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from common.security.ssrf import AddressPolicy
from services.notifier.deliveries.sender import Sender
from services.notifier.delivery_attempts import retry_schedule
from services.notifier.delivery_attempts.result import AttemptError, AttemptResult
from tests.integration.notifier.conftest import Names
from tests.integration.notifier.proxy import proxying
from tests.integration.notifier.receiver import BODY, ENCRYPTOR, OK, Answer, Receiver, claim, receive, write
from tests.support.receivers.certificate_authority import Authority

PUBLIC = AddressPolicy(allow_http=True)  # no loopback for webhooks; the proxy is exempt
SECONDS = 20.0  # deadline of an attempt; no test reaches it, except with SHORT
SHORT = 4.0
DOWN = "http://127.0.0.1:1"  # a port without a listener
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """The authority that senders trust."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    return authority


@pytest.fixture(autouse=True)
def hosts(names: Names) -> None:
    names |= {"receiver.example": ["8.8.8.8"], "proxy.example": ["127.0.0.1"]}


@asynccontextmanager
async def open_sender(proxy: str, timeout: float = SECONDS, policy: AddressPolicy = PUBLIC) -> AsyncIterator[Sender]:
    sender = Sender.open(ENCRYPTOR, policy, timeout=timeout, concurrency=10, proxy=proxy)
    try:
        yield sender
    finally:
        await sender.close()


async def attempt(url: str, proxy: str, timeout: float = SECONDS) -> AttemptResult:
    async with open_sender(proxy, timeout) as sender:
        return await sender.send(claim(url))


@asynccontextmanager
async def tls_receiver(authority: Authority, answer: Answer) -> AsyncIterator[Receiver]:
    async with receive(answer, authority.serve(host="receiver.example")) as receiver:
        yield receiver


@pytest.mark.filterwarnings(
    "ignore:.*(BasicAuth|proxy_auth).* is deprecated"
)  # httpx-aiohttp passes passwords like this
async def test_https_goes_through_a_persistent_tunnel(authority: Authority) -> None:
    async with (
        tls_receiver(authority, write(OK)) as receiver,
        proxying({"receiver.example": receiver.port}) as proxy,
        open_sender(f"http://user:pass%40word@proxy.example:{proxy.port}") as sender,
    ):
        for _ in range(3):
            result = await sender.send(claim("https://receiver.example/hook"))
            assert (result.error, result.status_code, result.response) == (None, 200, b"ok")
    assert proxy.requests == ["CONNECT receiver.example:443 HTTP/1.1"]
    assert b"proxy-authorization: basic dxnlcjpwyxnzqhdvcmq=\r\n" in proxy.heads[0].lower()
    assert (receiver.connections, receiver.bodies) == (1, [BODY] * 3)
    assert not any(b"proxy-" in head.lower() or b"cookie" in head.lower() for head in receiver.heads)
    assert b"host: receiver.example\r\n" in receiver.heads[0].lower()


async def test_a_proxy_may_use_tls(authority: Authority) -> None:
    async with (
        tls_receiver(authority, write(OK)) as receiver,
        proxying({"receiver.example": receiver.port}, context=authority.serve(host="proxy.example")) as proxy,
    ):
        result = await attempt("https://receiver.example/", f"https://proxy.example:{proxy.port}")
    assert (result.error, len(proxy.heads), receiver.bodies) == (None, 1, [BODY])


async def test_plain_http_is_forwarded() -> None:
    async with receive(write(OK)) as receiver, proxying({"receiver.example": receiver.port}) as proxy:
        result = await attempt("http://receiver.example/hook", f"http://127.0.0.1:{proxy.port}")
    assert (result.error, receiver.bodies) == (None, [BODY])
    assert proxy.requests == ["POST http://receiver.example/hook HTTP/1.1"]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_addresses_are_checked_before_the_proxy_gets_them(names: Names, scheme: str) -> None:
    names |= {
        "private.example": ["10.0.0.1"],
        "mixed.example": ["8.8.8.8", "127.0.0.1"],
        "xn--fa-hia.example": ["10.0.0.1"],
        "faß.example": ["8.8.8.8"],  # Python would resolve fass.example
        "nosuch.example": socket.EAI_NONAME,
        "silent.example": socket.EAI_AGAIN,
    }
    expected = {
        "127.0.0.1": (AttemptError.ADDRESS_REFUSED, False),
        "[64:ff9b::a9fe:a9fe]": (AttemptError.ADDRESS_REFUSED, False),
        "private.example": (AttemptError.ADDRESS_REFUSED, False),
        "mixed.example": (AttemptError.ADDRESS_REFUSED, False),
        "xn--fa-hia.example": (AttemptError.ADDRESS_REFUSED, False),
        "faß.example": (AttemptError.ADDRESS_REFUSED, False),
        "nosuch.example": (AttemptError.DNS_FAILED, False),
        "silent.example": (AttemptError.DNS_FAILED, True),  # an unchecked name is refused
    }
    async with proxying({}) as proxy, open_sender(f"http://127.0.0.1:{proxy.port}") as sender:
        for host, (error, internal) in expected.items():
            result = await sender.send(claim(f"{scheme}://{host}/"))
            assert (host, result.error, result.internal) == (host, error, internal)
        assert proxy.heads == []


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
        b"",
        b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
    ],
    ids=["403", "407", "500", "nothing", "not-http"],
)
async def test_a_refusing_proxy_is_an_internal_error(answer: bytes) -> None:
    async with proxying({}, answer) as proxy:
        result = await attempt("https://receiver.example/", f"http://127.0.0.1:{proxy.port}")
    assert (proxy.requests, result.status_code) == (["CONNECT receiver.example:443 HTTP/1.1"], None)
    assert_internal(result)


@pytest.mark.parametrize("url", ["https://receiver.example/", "http://receiver.example/"])
async def test_a_proxy_that_is_down_is_an_internal_error(names: Names, authority: Authority, url: str) -> None:
    names |= {"noproxy.example": socket.EAI_NONAME}
    assert_internal(await attempt(url, DOWN))
    assert_internal(await attempt(url, "http://noproxy.example:3128"))
    with open_full_port() as port:
        assert_internal(await attempt(url, f"http://127.0.0.1:{port}", SHORT))
    for context in (authority.serve(days=-1), authority.serve(host="other.example")):
        async with proxying({}, context=context) as proxy:
            assert_internal(await attempt(url, f"https://proxy.example:{proxy.port}"))


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"])
async def test_an_unreachable_receiver_behind_the_proxy_is_the_receivers_error(status: str) -> None:
    async with proxying({}, f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()) as proxy:
        result = await attempt("https://receiver.example/", f"http://127.0.0.1:{proxy.port}")
    assert (len(proxy.heads), result.error, result.internal) == (1, AttemptError.CONNECT_FAILED, False)


async def test_errors_behind_the_proxy_are_the_receivers(authority: Authority) -> None:
    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    answers = {
        hang: AttemptError.TIMEOUT,
        hang_up: AttemptError.CONNECTION_RESET,
        write(b"SSH-2.0\r\n\r\n"): AttemptError.BAD_RESPONSE,
    }
    for answer, error in answers.items():
        async with tls_receiver(authority, answer) as receiver, proxying({"receiver.example": receiver.port}) as proxy:
            url, through = "https://receiver.example/", f"http://127.0.0.1:{proxy.port}"
            result = await attempt(url, through, SHORT if answer is hang else SECONDS)
        assert (result.error, result.internal, receiver.bodies) == (error, False, [BODY])


async def test_a_bad_certificate_behind_the_proxy(authority: Authority) -> None:
    contexts = {
        AttemptError.TLS_EXPIRED: authority.serve(days=-1, host="receiver.example"),
        AttemptError.TLS_HOSTNAME: authority.serve(host="proxy.example"),
    }
    for error, context in contexts.items():
        async with receive(write(OK), context) as receiver, proxying({"receiver.example": receiver.port}) as proxy:
            result = await attempt("https://receiver.example/", f"http://127.0.0.1:{proxy.port}")
        assert (result.error, result.internal, receiver.heads) == (error, False, [])


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_proxies_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, scheme: str
) -> None:
    context = authority.serve() if scheme == "https" else None
    policy = AddressPolicy.parse(["127.0.0.0/8"], allow_http=True)
    async with receive(write(OK), context) as receiver, proxying({"127.0.0.1": receiver.port}) as proxy:
        for variable in PROXY_VARIABLES:
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        async with open_sender("", policy=policy) as sender:
            assert (await sender.send(claim(f"{scheme}://127.0.0.1:{receiver.port}/"))).error is None
        assert (receiver.connections, proxy.heads) == (1, [])


async def test_no_proxy_of_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "*")
    async with receive(write(OK)) as receiver, proxying({"receiver.example": receiver.port}) as proxy:
        assert (await attempt("http://receiver.example/", f"http://127.0.0.1:{proxy.port}")).error is None
        assert len(proxy.heads) == 1


def assert_internal(result: AttemptResult) -> None:
    """The error is the proxy's, and costs the receiver no attempt."""
    assert (result.error, result.internal) == (AttemptError.PROXY_FAILED, True)
    decision = retry_schedule.decide(result, 9, 1.0, [10.0] * 10, random=random.random(), now=datetime.now(UTC))  # noqa: S311
    assert isinstance(decision, retry_schedule.Rescheduled)
    assert not decision.counted


@contextlib.contextmanager
def open_full_port() -> Iterator[int]:
    """A port that neither accepts nor refuses connections."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # more than its backlog; Linux then drops new connections
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield full.getsockname()[1]
