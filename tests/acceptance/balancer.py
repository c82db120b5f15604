"""A load balancer in front of gateways, as a transport of httpx."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx

LOOK = 0.1  # seconds between looks at readiness
TIMEOUT = 10.0  # seconds
UNANSWERED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)  # closed before the answer's head was whole


class Balancer(httpx.AsyncBaseTransport):
    """Sends requests in turn to the gateways that are ready.

    The next one gets what was refused a connection, and a GET whose connection was closed unanswered. Nothing else is
    hidden from the client: a POST may not be sent twice.
    """

    def __init__(self, gateways: Sequence[str]) -> None:
        self.gateways = [httpx.URL(gateway) for gateway in gateways]
        self.ready = set(self.gateways)
        self.turn = itertools.count()
        self.transport = httpx.AsyncHTTPTransport(limits=httpx.Limits(keepalive_expiry=60))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for gateway in self.order():
            try:
                return await self.transport.handle_async_request(direct(request, gateway))
            except httpx.ConnectError:
                continue
            except UNANSWERED:
                if request.method != "GET":
                    raise
        raise httpx.ConnectError("no gateway takes connections")

    def order(self) -> list[httpx.URL]:
        """The gateway whose turn it is first; those that are not ready last."""
        start = next(self.turn) % len(self.gateways)
        turned = self.gateways[start:] + self.gateways[:start]
        return sorted(turned, key=lambda gateway: gateway not in self.ready)

    async def watch(self) -> None:
        """Looks whether each gateway is ready, over a new connection each time, until cancelled."""
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(timeout=TIMEOUT, limits=limits) as client:
            while True:
                await asyncio.gather(*(self.look(client, gateway) for gateway in self.gateways))
                await asyncio.sleep(LOOK)

    async def look(self, client: httpx.AsyncClient, gateway: httpx.URL) -> None:
        (self.ready.add if await is_ready(client, gateway) else self.ready.discard)(gateway)

    async def aclose(self) -> None:
        await self.transport.aclose()


@asynccontextmanager
async def balanced(gateways: Sequence[str], key: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that knows one address only."""
    balancer = Balancer(gateways)
    watching = asyncio.create_task(balancer.watch())
    headers = {"Authorization": f"Bearer {key}"}
    try:
        async with httpx.AsyncClient(
            transport=balancer, base_url="http://balancer", headers=headers, timeout=TIMEOUT
        ) as client:
            yield client
    finally:
        watching.cancel()


def direct(request: httpx.Request, gateway: httpx.URL) -> httpx.Request:
    """The same request, to this gateway."""
    url = request.url.copy_with(host=gateway.host, port=gateway.port)
    return httpx.Request(
        request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
    )


async def is_ready(client: httpx.AsyncClient, gateway: httpx.URL) -> bool:
    try:
        return (await client.get(gateway.join("/readyz"))).status_code == 200
    except httpx.TransportError:
        return False
