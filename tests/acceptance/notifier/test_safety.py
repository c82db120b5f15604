"""No receiver can make the notifier connect to a forbidden address, or grow.

tests/integration/notifier/deliveries/transport has what it does about redirects, certificates and slow receivers.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack

import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.receivers.certificate_authority import Authority
from tests.support.receivers.misbehaving_receivers import FLOODS, LIMIT, MisbehavingReceiver
from tests.support.receivers.raw_server import RawServer
from tests.support.receivers.special_addresses import NOT_PUBLIC, ODD_LITERALS
from tests.support.stacks.restricted_services import (
    ALLOWED,
    FORBIDDEN,
    RestrictedServices,
    send,
    send_all,
    subscribe,
)
from tests.support.waiting import eventually

IDLE_SECONDS = 3.0  # in which a connection is kept for sure; it is closed after 4
MARGIN = 4.0  # seconds beyond a deadline, on a busy machine
ALLOWED_GROWTH = 10_000_000  # bytes
KEPT_BYTES = 16 * 1024  # bytes of a response
REDIRECTS = (301, 302, 303, 307, 308)
PUBLIC = "8.8.8.8"  # resolved, never connected to
# Every fifth: tests/unit/common/security and tests/integration/notifier/transport have all of them.
ADDRESSES = [each for each in NOT_PUBLIC if each != ALLOWED][::5]
LITERALS = [*(f"[{each}]" if ":" in each else each for each in ADDRESSES), *ODD_LITERALS[::5]]
FORBIDDEN_URLS = [
    *(f"https://{host}/hook" for host in LITERALS),
    "https://user:password@example.com/",
    "ftp://example.com/",
    "https://[::1",
    "https://example.com:22/",
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
async def services(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> AsyncIterator[RestrictedServices]:
    services = await asyncio.to_thread(RestrictedServices, stack, tmp_path_factory.mktemp("restricted"), authority.path)
    async with AsyncExitStack() as exit_stack:
        running = ExitStack()
        exit_stack.push_async_callback(asyncio.to_thread, running.close)
        yield await asyncio.to_thread(running.enter_context, services.running())


@pytest.fixture(scope="module")
async def restricted_api(services: RestrictedServices) -> AsyncIterator[Api]:
    async with services.open_client() as client:
        yield client


async def test_a_forbidden_address_is_refused_at_creation(restricted_api: Api) -> None:
    async with restricted_api.subscribed(f"https://{PUBLIC}/") as subscription:
        for url in FORBIDDEN_URLS:
            for method, path in (("POST", "/v1/webhooks"), ("PATCH", f"/v1/webhooks/{subscription.id}")):
                response = await restricted_api.http.request(method, path, json={"url": url})
                assert (url, response.status_code) == (url, 422)
                assert [each["pointer"] for each in response.json()["errors"]] == ["/url"]


async def test_a_forbidden_address_is_refused_for_a_callback(api: Api) -> None:
    """The shared gateway checks these, because the restricted one knows no models.

    It allows loopback addresses, but not their unusual spellings.
    """
    for url in FORBIDDEN_URLS:
        if not url.startswith(("https://127.0.0.1/", "https://127.255", "https://[::1]")):
            job = {"model": "echo", "inputs": {"x": [[1.0]]}, "webhook": {"url": url}}
            response = await api.http.post("/v1/jobs", json=job)
            assert (url, response.status_code) == (url, 422)
            assert [each["pointer"] for each in response.json()["errors"]] == ["/webhook/url"]


async def test_a_forbidden_address_is_refused_at_send(services: RestrictedServices, restricted_api: Api) -> None:
    """Check names, because they may change, and literals, because the allowed networks may change."""
    names = {f"n{number}.example": [address] for number, address in enumerate(ADDRESSES)}
    services.set_names({name: [PUBLIC] for name in names})
    urls = [f"http://{name}/hook" for name in names]
    before = services.read_connections()
    async with subscribe(restricted_api, urls) as ids:
        services.set_names(names)
        assert [each.error_code for each in await send_all(restricted_api, ids)] == ["address_refused"] * len(names)
    literals = [f"http://{host}/hook" for host in LITERALS]
    async with subscribe(restricted_api, [f"http://{ALLOWED}/"] * len(literals)) as ids:
        for subscription_id, url in zip(ids, literals, strict=True):
            services.set_url(subscription_id, url)
        assert [each.error_code for each in await send_all(restricted_api, ids)] == ["address_refused"] * len(literals)
    assert services.read_connections() == before


async def test_name_that_moves_to_a_forbidden_address_is_refused(
    services: RestrictedServices, restricted_api: Api
) -> None:
    async def was_quick() -> bool:
        return await check_moving_names(services, restricted_api)

    await eventually(was_quick, "a second delivery before an idle connection is closed", 60.0)


async def check_moving_names(services: RestrictedServices, restricted_api: Api) -> bool:
    """Return whether the last delivery came in time for the connection of the first."""
    with RawServer(host=FORBIDDEN) as inside, RawServer(host=ALLOWED) as receiver:
        names = {"moves.example": [PUBLIC], "mixed.example": [PUBLIC], "pooled.example": [ALLOWED]}
        services.set_names(names)
        urls = [f"http://moves.example:{inside.port}/", f"http://mixed.example:{receiver.port}/"]
        before = len(services.read_connections())
        async with subscribe(restricted_api, [*urls, f"http://pooled.example:{receiver.port}/"]) as (
            moves,
            mixed,
            pooled,
        ):
            assert (await send(restricted_api, pooled)).status_code == 204
            sent_at = time.monotonic()
            services.set_names(
                {"moves.example": [FORBIDDEN], "mixed.example": [ALLOWED, FORBIDDEN], "pooled.example": [FORBIDDEN]}
            )
            refused = await send_all(restricted_api, [moves, mixed])
            assert [each.error_code for each in refused] == ["address_refused"] * 2
            again = await send(restricted_api, pooled)
            if time.monotonic() - sent_at > IDLE_SECONDS:
                return False
            assert again.status_code == 204
        for url in urls:
            response = await restricted_api.http.post("/v1/webhooks", json={"url": url})
            assert response.status_code == 422
        assert services.read_connections()[before:] == [ALLOWED]  # once: the second delivery uses the same connection
        assert (inside.connections, receiver.connections) == (0, 1)
    return True


async def test_memory_does_not_grow_with_the_size_of_responses(
    services: RestrictedServices, restricted_api: Api, authority: Authority
) -> None:
    """Send all floods at once, and then one that follows a complete response on a connection that is kept."""
    expected = {path: fault for path, (_, _, fault) in FLOODS.items()} | {"/bomb": None, "/after": None}
    with RawServer(handler := MisbehavingReceiver(), context=authority.serve()) as server:
        async with (
            subscribe(restricted_api, [f"{server.url}/quiet"] * len(expected)) as quiet,
            subscribe(restricted_api, [server.url + path for path in expected]) as ids,
        ):
            assert {each.error_code for each in await send_all(restricted_api, quiet)} == {None}
            before = services.reset_peak_memory()
            # /after goes last: its receiver reads nothing more, so a flood that got its connection would never begin.
            attempts = [*await send_all(restricted_api, ids[:-1]), await send(restricted_api, ids[-1])]
            assert services.read_peak_memory() - before < ALLOWED_GROWTH
            handler.answered.set()
            # Before the wait, because a flood that never began never ends.
            assert {path: each.error_code for path, each in zip(expected, attempts, strict=True)} == expected
            await eventually(handler.have_all_ended, "every flood has ended")
            assert services.read_peak_memory() - before < ALLOWED_GROWTH
    assert max(len(each.response) for each in attempts) == KEPT_BYTES
    assert handler.sent.most_common(1)[0][1] < LIMIT
