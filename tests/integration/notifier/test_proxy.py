"""The sender behind an egress proxy: what is checked before, and whose fault is whose."""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from common.addresses import Policy
from services.notifier import schedule
from services.notifier.outcome import Fault, Outcome
from services.notifier.sender import Sender
from tests.authority import Authority
from tests.integration.notifier.conftest import Names
from tests.integration.notifier.proxy import proxying
from tests.integration.notifier.receiver import BODY, OK, SEALER, Answer, Receiver, claim, receive, write

PUBLIC = Policy(allow_http=True)  # loopback stays closed to webhooks, not to the proxy
SECONDS = 20.0  # of an attempt; nothing here waits for it, except where it says HURRIED
HURRIED = 1.5
DOWN = "http://127.0.0.1:1"  # a port that nobody listens on
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """The one that senders trust."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    return authority


@pytest.fixture(autouse=True)
def hosts(names: Names) -> None:
    names |= {"receiver.example": ["8.8.8.8"], "proxy.example": ["127.0.0.1"]}


@asynccontextmanager
async def open_sender(proxy: str, timeout: float = SECONDS, policy: Policy = PUBLIC) -> AsyncIterator[Sender]:
    sender = Sender.open(SEALER, policy, timeout=timeout, concurrency=10, proxy=proxy)
    try:
        yield sender
    finally:
        await sender.close()


async def attempt(url: str, proxy: str, timeout: float = SECONDS) -> Outcome:
    async with open_sender(proxy, timeout) as sender:
        return await sender.send(claim(url))


@asynccontextmanager
async def tls_receiver(authority: Authority, answer: Answer) -> AsyncIterator[Receiver]:
    async with receive(answer, authority.serve(host="receiver.example")) as receiver:
        yield receiver


@pytest.mark.filterwarnings("ignore:.*(BasicAuth|proxy_auth).* is deprecated")  # httpx-aiohttp's way with passwords
async def test_https_goes_through_a_tunnel_that_is_kept(authority: Authority) -> None:
    async with (
        tls_receiver(authority, write(OK)) as receiver,
        proxying({"receiver.example": receiver.port}) as proxy,
        open_sender(f"http://user:pass%40word@proxy.example:{proxy.port}") as sender,
    ):
        for _ in range(3):
            outcome = await sender.send(claim("https://receiver.example/hook"))
            assert (outcome.fault, outcome.status_code, outcome.response) == (None, 200, b"ok")
    assert proxy.asked == ["CONNECT receiver.example:443 HTTP/1.1"]
    assert b"proxy-authorization: basic dxnlcjpwyxnzqhdvcmq=\r\n" in proxy.heads[0].lower()
    assert (receiver.connections, receiver.bodies) == (1, [BODY] * 3)
    assert not any(b"proxy-" in head.lower() or b"cookie" in head.lower() for head in receiver.heads)
    assert b"host: receiver.example\r\n" in receiver.heads[0].lower()


async def test_a_proxy_may_speak_tls_itself(authority: Authority) -> None:
    async with (
        tls_receiver(authority, write(OK)) as receiver,
        proxying({"receiver.example": receiver.port}, context=authority.serve(host="proxy.example")) as proxy,
    ):
        outcome = await attempt("https://receiver.example/", f"https://proxy.example:{proxy.port}")
    assert (outcome.fault, len(proxy.heads), receiver.bodies) == (None, 1, [BODY])


async def test_plain_http_is_passed_on() -> None:
    async with receive(write(OK)) as receiver, proxying({"receiver.example": receiver.port}) as proxy:
        outcome = await attempt("http://receiver.example/hook", f"http://127.0.0.1:{proxy.port}")
    assert (outcome.fault, receiver.bodies) == (None, [BODY])
    assert proxy.asked == ["POST http://receiver.example/hook HTTP/1.1"]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_addresses_are_checked_before_the_proxy_hears_of_them(names: Names, scheme: str) -> None:
    names |= {
        "private.example": ["10.0.0.1"],
        "mixed.example": ["8.8.8.8", "127.0.0.1"],
        "xn--fa-hia.example": ["10.0.0.1"],
        "faß.example": ["8.8.8.8"],  # Python would look up fass.example
        "nosuch.example": socket.EAI_NONAME,
        "silent.example": socket.EAI_AGAIN,
    }
    expected = {
        "127.0.0.1": (Fault.ADDRESS_REFUSED, False),
        "[64:ff9b::a9fe:a9fe]": (Fault.ADDRESS_REFUSED, False),
        "private.example": (Fault.ADDRESS_REFUSED, False),
        "mixed.example": (Fault.ADDRESS_REFUSED, False),
        "xn--fa-hia.example": (Fault.ADDRESS_REFUSED, False),
        "faß.example": (Fault.ADDRESS_REFUSED, False),
        "nosuch.example": (Fault.DNS_FAILED, False),
        "silent.example": (Fault.DNS_FAILED, True),  # not checked is not good enough
    }
    async with proxying({}) as proxy, open_sender(f"http://127.0.0.1:{proxy.port}") as sender:
        for host, (fault, ours) in expected.items():
            outcome = await sender.send(claim(f"{scheme}://{host}/"))
            assert (host, outcome.fault, outcome.ours) == (host, fault, ours)
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
async def test_a_proxy_that_refuses_is_our_own_fault(answer: bytes) -> None:
    async with proxying({}, answer) as proxy:
        outcome = await attempt("https://receiver.example/", f"http://127.0.0.1:{proxy.port}")
    assert (proxy.asked, outcome.status_code) == (["CONNECT receiver.example:443 HTTP/1.1"], None)
    assert_ours(outcome)


@pytest.mark.parametrize("url", ["https://receiver.example/", "http://receiver.example/"])
async def test_a_proxy_that_is_down_is_our_own_fault(names: Names, authority: Authority, url: str) -> None:
    names |= {"noproxy.example": socket.EAI_NONAME}
    assert_ours(await attempt(url, DOWN))
    assert_ours(await attempt(url, "http://noproxy.example:3128"))
    with deaf() as port:
        assert_ours(await attempt(url, f"http://127.0.0.1:{port}", HURRIED))
    for context in (authority.serve(days=-1), authority.serve(host="other.example")):
        async with proxying({}, context=context) as proxy:
            assert_ours(await attempt(url, f"https://proxy.example:{proxy.port}"))


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"])
async def test_a_receiver_that_the_proxy_cannot_reach_is_its_own_fault(status: str) -> None:
    async with proxying({}, f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()) as proxy:
        outcome = await attempt("https://receiver.example/", f"http://127.0.0.1:{proxy.port}")
    assert (len(proxy.heads), outcome.fault, outcome.ours) == (1, Fault.CONNECT_FAILED, False)


async def test_a_receiver_behind_the_proxy_keeps_its_own_faults(authority: Authority) -> None:
    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    answers = {hang: Fault.TIMEOUT, hang_up: Fault.CONNECTION_RESET, write(b"SSH-2.0\r\n\r\n"): Fault.BAD_RESPONSE}
    for answer, fault in answers.items():
        async with tls_receiver(authority, answer) as receiver, proxying({"receiver.example": receiver.port}) as proxy:
            url, through = "https://receiver.example/", f"http://127.0.0.1:{proxy.port}"
            outcome = await attempt(url, through, HURRIED if answer is hang else SECONDS)
        assert (outcome.fault, outcome.ours, receiver.bodies) == (fault, False, [BODY])


async def test_a_bad_certificate_behind_the_proxy(authority: Authority) -> None:
    contexts = {
        Fault.TLS_EXPIRED: authority.serve(days=-1, host="receiver.example"),
        Fault.TLS_HOSTNAME: authority.serve(host="proxy.example"),
    }
    for fault, context in contexts.items():
        async with receive(write(OK), context) as receiver, proxying({"receiver.example": receiver.port}) as proxy:
            outcome = await attempt("https://receiver.example/", f"http://127.0.0.1:{proxy.port}")
        assert (outcome.fault, outcome.ours, receiver.heads) == (fault, False, [])


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_proxies_of_the_environment_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, scheme: str
) -> None:
    context = authority.serve() if scheme == "https" else None
    policy = Policy.parse(["127.0.0.0/8"], allow_http=True)
    async with receive(write(OK), context) as receiver, proxying({"127.0.0.1": receiver.port}) as proxy:
        for variable in PROXY_VARIABLES:
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        async with open_sender("", policy=policy) as sender:
            assert (await sender.send(claim(f"{scheme}://127.0.0.1:{receiver.port}/"))).fault is None
        assert (receiver.connections, proxy.heads) == (1, [])


async def test_the_environment_names_no_exceptions_from_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "*")
    async with receive(write(OK)) as receiver, proxying({"receiver.example": receiver.port}) as proxy:
        assert (await attempt("http://receiver.example/", f"http://127.0.0.1:{proxy.port}")).fault is None
        assert len(proxy.heads) == 1


def assert_ours(outcome: Outcome) -> None:
    """Named so, and the receiver's attempts stay as many as they were."""
    assert (outcome.fault, outcome.ours) == (Fault.PROXY_FAILED, True)
    verdict = schedule.decide(outcome, 9, 1.0, [10.0] * 10, random=random.random(), now=datetime.now(UTC))  # noqa: S311
    assert isinstance(verdict, schedule.Again)
    assert not verdict.counted


@contextlib.contextmanager
def deaf() -> Iterator[int]:
    """A port that takes no connection, and does not refuse it either."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # more than its queue takes; Linux then drops what asks for a connection
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield full.getsockname()[1]
