"""Connects to checked addresses only.

The resolver checks every address it returns. The socket factory checks again right before a
connection. That also covers literal addresses, which are never resolved.
"""

import socket
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp
import httpx
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.transport import AiohttpResponseStream, map_aiohttp_exceptions
from multidict import CIMultiDict

from common.errors import AddressRefused
from common.http_client.limits import Response, limit_connections
from common.http_client.proxy import ProxyConnector
from common.security.dns import resolve
from common.security.ssrf import AddressPolicy, check_address, check_port

# Below the 5 s of common servers. If a server closes the connection under a request, that costs an
# attempt.
KEEP_ALIVE_SECONDS = 4.0
# Shares of the deadline, so that a slow connection and a slow response have different errors.
CONNECT_SHARE = 2 / 3
PROXY_SHARE = 1 / 3  # shorter, so that an unreachable proxy differs from an unreachable server
MAX_HEADER = 8190  # bytes
MAX_HEADERS = 128

# (family, type, protocol, canonical name, address), as of getaddrinfo
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class ForbiddenConnection(OSError):
    """AddressRefused in a form that aiohttp passes on from a connection attempt."""


class CheckedResolver(AbstractResolver):
    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a host. Raises AddressRefused if one of its addresses is not allowed."""
        found = await resolve(host, port)
        for _, address in found:
            check_address(address, self._policy)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=kind,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, address in found
        ]

    async def close(self) -> None:
        pass


def open_session(policy: AddressPolicy, concurrency: int, *, proxied: bool = False) -> aiohttp.ClientSession:
    """Open a session for at most `concurrency` connections. It ignores cookies, and proxies and netrc
    of the environment.

    With `proxied`, no address is checked here: all connections go to the proxy, which may have any
    address.
    """
    tls = ssl.create_default_context()  # trusts the system's authorities, or SSL_CERT_FILE and SSL_CERT_DIR
    tls.set_alpn_protocols(["http/1.1"])
    kind = ProxyConnector if proxied else aiohttp.TCPConnector
    connector = kind(
        ssl=tls,
        resolver=None if proxied else CheckedResolver(policy),
        socket_factory=lambda info: open_socket(info, None if proxied else policy),
        limit=concurrency,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
    )
    limit_connections(connector)
    return aiohttp.ClientSession(
        connector=connector,
        response_class=Response,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        max_line_size=MAX_HEADER,
        max_field_size=MAX_HEADER,
        max_headers=MAX_HEADERS,
    )


def open_socket(info: AddressInfo, policy: AddressPolicy | None) -> socket.socket:
    """Open a socket for an address that the policy allows."""
    family, kind, protocol, _, address = info
    try:
        if policy is not None:
            check_address(str(address[0]), policy)
            check_port(int(address[1]))
    except AddressRefused as error:
        raise ForbiddenConnection(str(error)) from error
    return socket.socket(family, kind, protocol)


class DirectTransport(AiohttpTransport):
    """httpx over aiohttp, straight to the servers.

    httpx-aiohttp decodes all headers several times and builds the timeouts for every request. That
    costs more than sending.
    """

    def __init__(self, session: aiohttp.ClientSession, connect: float) -> None:
        """`connect`: seconds for a connection. The caller limits the rest."""
        # The session has its own context. Without one here, httpx would load the authorities once more, for 50 ms.
        super().__init__(client=session, verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request whose body is already read."""
        headers = CIMultiDict([(name.decode("ascii"), value.decode("ascii")) for name, value in request.headers.raw])
        with map_aiohttp_exceptions():
            response = await self._session.request(
                request.method,
                yarl.URL(str(request.url)),
                data=request.content or None,
                headers=headers,
                allow_redirects=False,
                compress=False,
                timeout=self._timeout,
            )
        return httpx.Response(response.status, headers=response.raw_headers, stream=AiohttpResponseStream(response))


class CheckedClient:
    """Sends requests to allowed addresses, directly or through an egress proxy, over connections that stay open.

    It is no httpx client: a transport has no redirects, cookies or environment variables to turn off, at half the
    cost.
    """

    def __init__(self, session: aiohttp.ClientSession, policy: AddressPolicy, timeout: float, proxy: str = "") -> None:
        """`timeout` is the deadline of a whole exchange, in seconds, which the caller holds.

        `proxy` is the session's proxy, if it has one.
        """
        self._proxied = bool(proxy)
        self._resolver = CheckedResolver(policy)
        self._transport = (
            AiohttpTransport(client=session, proxy=httpx.Proxy(proxy))
            if proxy
            else DirectTransport(session, timeout * CONNECT_SHARE)
        )
        self._extensions = {
            "timeout": httpx.Timeout(None, connect=timeout * PROXY_SHARE, pool=timeout * CONNECT_SHARE).as_dict()
        }

    @classmethod
    def open(cls, policy: AddressPolicy, *, timeout: float, concurrency: int, proxy: str = "") -> "CheckedClient":
        return cls(open_session(policy, concurrency, proxied=bool(proxy)), policy, timeout, proxy)

    async def close(self) -> None:
        await self._transport.aclose()

    def build_request(
        self, method: str, url: httpx.URL, headers: Mapping[str, str], body: bytes = b""
    ) -> httpx.Request:
        """Return a request whose body is already read. aiohttp adds the content length."""
        all_headers = {**headers, "host": url.netloc.decode()}
        stream = httpx.ByteStream(body)
        request = httpx.Request(method, url, stream=stream, headers=all_headers, extensions=self._extensions)
        request.read()
        return request

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Return the response, whose body is not read yet. Close it. Raises what `errors.EXPECTED` lists."""
        if self._proxied:  # the proxy connects, so check the exact name that it will get
            await self._resolver.resolve(request.url.raw_host.decode())
        return await self._transport.handle_async_request(request)
