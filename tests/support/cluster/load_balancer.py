"""A load balancer in front of gateways, as a transport of httpx."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx

CHECK_INTERVAL = 0.1  # seconds between checks of readiness
TIMEOUT = 10.0  # seconds
# The connection was closed before the response's head was complete.
CLOSED_EARLY = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


class LoadBalancer(httpx.AsyncBaseTransport):
    """Sends requests in turn to the gateways that are ready.

    It tries the next gateway if a connection is refused, or if a GET gets no response. It shows every other error
    to the client, because a POST may not be sent twice.
    """

    def __init__(self, gateways: Sequence[str]) -> None:
        self._gateways = [httpx.URL(gateway) for gateway in gateways]
        self._ready = set(self._gateways)
        self._counter = itertools.count()
        self._transport = httpx.AsyncHTTPTransport(limits=httpx.Limits(keepalive_expiry=60))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for gateway in self._order():
            try:
                return await self._transport.handle_async_request(send_to(request, gateway))
            except httpx.ConnectError:
                continue
            except CLOSED_EARLY:
                if request.method != "GET":
                    raise
        raise httpx.ConnectError("no gateway takes connections")

    def _order(self) -> list[httpx.URL]:
        """Return the gateways from the next in turn on, those that are not ready last."""
        start = next(self._counter) % len(self._gateways)
        rotated = self._gateways[start:] + self._gateways[:start]
        return sorted(rotated, key=lambda gateway: gateway not in self._ready)

    async def watch(self) -> None:
        """Check the readiness of each gateway over new connections, until cancelled."""
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(timeout=TIMEOUT, limits=limits) as client:
            while True:
                await asyncio.gather(*(self._check(client, gateway) for gateway in self._gateways))
                await asyncio.sleep(CHECK_INTERVAL)

    async def _check(self, client: httpx.AsyncClient, gateway: httpx.URL) -> None:
        (self._ready.add if await is_ready(client, gateway) else self._ready.discard)(gateway)

    async def aclose(self) -> None:
        await self._transport.aclose()


@asynccontextmanager
async def open_balanced_client(gateways: Sequence[str], key: str) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client that knows only the load balancer."""
    balancer = LoadBalancer(gateways)
    watching = asyncio.create_task(balancer.watch())
    headers = {"Authorization": f"Bearer {key}"}
    try:
        async with httpx.AsyncClient(
            transport=balancer, base_url="http://balancer", headers=headers, timeout=TIMEOUT
        ) as client:
            yield client
    finally:
        watching.cancel()


def send_to(request: httpx.Request, gateway: httpx.URL) -> httpx.Request:
    """Return the same request, addressed to this gateway."""
    url = request.url.copy_with(host=gateway.host, port=gateway.port)
    return httpx.Request(
        request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
    )


async def is_ready(client: httpx.AsyncClient, gateway: httpx.URL) -> bool:
    try:
        return (await client.get(gateway.join("/readyz"))).status_code == 200
    except httpx.TransportError:
        return False
