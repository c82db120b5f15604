"""No receiver makes the notifier connect where it must not, speak to whom it must not, wait or grow."""

import asyncio
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

from deploy.local.stack import Stack
from tests.acceptance.client import Api
from tests.acceptance.guard import ALLOWED, DEADLINE, FORBIDDEN, Guard, send, send_all, subscribe
from tests.acceptance.hostile import DRIPS, FLOODS, LIMIT, Hostile
from tests.acceptance.waiting import eventually
from tests.authority import Authority
from tests.raw_server import RawServer
from tests.special_addresses import NOT_PUBLIC, ODD_LITERALS

ROOM = 4.0  # seconds beyond a deadline, on a busy machine
GROWTH = 10_000_000  # bytes
KEPT = 16 * 1024  # bytes of an answer
REDIRECTS = (301, 302, 303, 307, 308)
PUBLIC = "8.8.8.8"  # looked up, never connected to
HOSTS = [f"[{each}]" if ":" in each else each for each in NOT_PUBLIC if each != ALLOWED]
URLS = [
    *(f"https://{host}/hook" for host in (*HOSTS, *ODD_LITERALS)),
    *("https://user@example.com/", "https://user:password@example.com/", "ftp://example.com/", "https://[::1", "x"),
    *(f"https://example.com:{port}/" for port in (0, 22, 25, 5432, 6379, 99999)),
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
async def guard(stack: Stack, tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> AsyncIterator[Guard]:
    guard = await asyncio.to_thread(Guard, stack, tmp_path_factory.mktemp("guard"), authority.path)
    async with AsyncExitStack() as leaving:
        running = ExitStack()
        leaving.push_async_callback(asyncio.to_thread, running.close)
        yield await asyncio.to_thread(running.enter_context, guard.running())


@pytest.fixture(scope="module")
async def guarded(guard: Guard) -> AsyncIterator[Api]:
    async with guard.client() as client:
        yield client


async def test_every_form_of_a_forbidden_address_is_refused_at_creation(guarded: Api) -> None:
    async with guarded.subscribed(f"https://{PUBLIC}/") as subscription:
        for url in URLS:
            for method, path in (("POST", "/v1/webhooks"), ("PATCH", f"/v1/webhooks/{subscription.id}")):
                answer = await guarded.http.request(method, path, json={"url": url})
                assert (url, answer.status_code) == (url, 422)
                assert [each["pointer"] for each in answer.json()["errors"]] == ["/url"]


async def test_every_form_of_a_forbidden_address_is_refused_for_a_callback(api: Api) -> None:
    """By the shared gateway, as this one knows no models; it allows loopback, but not its odd forms."""
    for url in URLS:
        if not url.startswith(("https://127.0.0.1/", "https://127.255", "https://[::1]")):
            job = {"model": "echo", "inputs": {"x": [[1.0]]}, "webhook": {"url": url}}
            answer = await api.http.post("/v1/jobs", json=job)
            assert (url, answer.status_code) == (url, 422)
            assert [each["pointer"] for each in answer.json()["errors"]] == ["/webhook/url"]


async def test_every_forbidden_address_is_refused_at_send(guard: Guard, guarded: Api) -> None:
    """By name, as names change; and as a literal, as what is allowed changes."""
    addresses = [address for address in NOT_PUBLIC if address != ALLOWED and "%" not in address]
    names = {f"n{number}.example": [address] for number, address in enumerate(addresses)}
    guard.answer({name: [PUBLIC] for name in names})
    urls = [f"http://{name}/hook" for name in names]
    before = guard.connected()
    async with subscribe(guarded, urls) as ids:
        guard.answer(names)
        assert [each.error for each in await send_all(guarded, ids)] == ["address_refused"] * len(names)
    literals = [f"http://{host}/hook" for host in (*HOSTS, *ODD_LITERALS)]
    async with subscribe(guarded, [f"http://{ALLOWED}/"] * len(literals)) as ids:
        for subscription_id, url in zip(ids, literals, strict=True):
            guard.move(subscription_id, url)
        assert [each.error for each in await send_all(guarded, ids)] == ["address_refused"] * len(literals)
    assert guard.connected() == before


async def test_a_name_that_moves_to_a_forbidden_address(guard: Guard, guarded: Api) -> None:
    with RawServer(host=FORBIDDEN) as inside, RawServer(host=ALLOWED) as receiver:
        names = {"moves.example": [PUBLIC], "mixed.example": [PUBLIC], "pooled.example": [ALLOWED]}
        guard.answer(names)
        urls = [f"http://moves.example:{inside.port}/", f"http://mixed.example:{receiver.port}/"]
        before = len(guard.connected())
        async with subscribe(guarded, [*urls, f"http://pooled.example:{receiver.port}/"]) as (moves, mixed, pooled):
            assert (await send(guarded, pooled)).status_code == 204
            guard.answer(
                {"moves.example": [FORBIDDEN], "mixed.example": [ALLOWED, FORBIDDEN], "pooled.example": [FORBIDDEN]}
            )
            refused = await send_all(guarded, [moves, mixed])
            assert [each.error for each in refused] == ["address_refused"] * 2
            assert (await send(guarded, pooled)).status_code == 204
        for url in urls:
            answer = await guarded.http.post("/v1/webhooks", json={"url": url})
            assert answer.status_code == 422
        assert guard.connected()[before:] == [ALLOWED]  # once, and the second delivery over the same connection
        assert (inside.connections, receiver.connections) == (0, 1)


async def test_a_redirect_to_metadata_is_not_followed(guard: Guard, guarded: Api) -> None:
    def redirect(path: str, connection: socket.socket) -> None:
        head = f"HTTP/1.1 {path[1:]} Go\r\nLocation: http://169.254.169.254/latest/meta-data/\r\n"
        connection.sendall(f"{head}Content-Length: 0\r\n\r\n".encode())

    before = len(guard.connected())
    with RawServer(redirect) as receiver:
        async with subscribe(guarded, [f"{receiver.url}/{status}" for status in REDIRECTS]) as ids:
            attempts = [await send(guarded, each) for each in ids]
    assert [(each.error, each.status_code) for each in attempts] == [("http_status", status) for status in REDIRECTS]
    assert set(guard.connected()[before:]) == {ALLOWED}
    assert len(receiver.heard) == len(REDIRECTS)


async def test_nothing_is_said_to_a_server_without_the_right_certificate(
    guarded: Api, authority: Authority, tmp_path: Path
) -> None:
    old = authority.serve(host=ALLOWED)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    contexts = {
        "tls_expired": authority.serve(days=-1),
        "tls_hostname": authority.serve(host=FORBIDDEN),
        "tls_untrusted": Authority(tmp_path).serve_itself(),
        "tls_protocol": old,
        None: authority.serve(),
    }
    with ExitStack() as stack:
        servers = [stack.enter_context(RawServer(context=context)) for context in contexts.values()]
        async with subscribe(guarded, [server.url for server in servers]) as ids:
            assert [each.error for each in await send_all(guarded, ids)] == list(contexts)
    assert [bool(server.heard) for server in servers] == [False, False, False, False, True]
    assert [len(server.refused) for server in servers] == [1, 1, 1, 1, 0]


async def test_one_deadline_whatever_hangs_or_drips(guarded: Api) -> None:
    with RawServer(Hostile()) as server:
        async with subscribe(guarded, [server.url + path for path in DRIPS]) as ids:
            attempts = await send_all(guarded, ids)
    for path, attempt in zip(DRIPS, attempts, strict=True):
        assert (path, attempt.error) == (path, "timeout")
        assert DEADLINE * 900 < attempt.latency_ms < (DEADLINE + ROOM) * 1000


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
async def test_memory_does_not_grow_with_what_is_sent(
    guard: Guard, guarded: Api, authority: Authority, secure: bool
) -> None:
    """All floods at once, one of them after an answer in full, on a connection that is kept."""
    expected = {path: fault for path, (_, _, fault) in FLOODS.items()} | {"/bomb": None, "/after": None}
    context = authority.serve() if secure else None
    with RawServer(hostile := Hostile(), context=context) as server:
        async with (
            subscribe(guarded, [f"{server.url}/quiet"] * len(expected)) as quiet,
            subscribe(guarded, [server.url + path for path in expected]) as ids,
        ):
            assert {each.error for each in await send_all(guarded, quiet)} == {None}
            before = guard.memory()
            attempts = await send_all(guarded, ids)
            assert guard.peak() - before < GROWTH
            hostile.answered.set()
            await eventually(hostile.all_ended, "nobody takes any of the floods")
            assert guard.peak() - before < GROWTH
    assert {path: each.error for path, each in zip(expected, attempts, strict=True)} == expected
    assert max(len(each.response) for each in attempts) == KEPT
    assert hostile.sent.most_common(1)[0][1] < LIMIT
