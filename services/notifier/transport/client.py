"""Connects to checked addresses only.

The resolver checks every address it returns. The socket factory checks again right before a
connection. That also covers literal addresses, which are never resolved.
"""

import socket
import ssl
from typing import Any

import aiohttp
import httpx
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.transport import AiohttpResponseStream, map_aiohttp_exceptions
from multidict import CIMultiDict

from common.errors import AddressRefused
from common.security.dns import resolve
from common.security.ssrf import AddressPolicy, check_address, check_port
from services.notifier.transport.limits import Response, limit_connections
from services.notifier.transport.proxy import ProxyConnector

# Below the 5 s of common servers. If a server closes the connection under a request, that costs an
# attempt.
KEEP_ALIVE_SECONDS = 4.0
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
    """httpx over aiohttp, straight to the receivers.

    httpx-aiohttp decodes all headers several times and builds the timeouts for every request. That
    costs more than sending.
    """

    def __init__(self, session: aiohttp.ClientSession, connect: float) -> None:
        """`connect`: seconds for a connection. The caller limits the rest."""
        super().__init__(client=session)
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request whose body is already read."""
        headers = CIMultiDict([(name.decode("ascii"), value.decode("ascii")) for name, value in request.headers.raw])
        with map_aiohttp_exceptions():
            response = await self._session.request(
                request.method,
                yarl.URL(str(request.url)),
                data=request.content,
                headers=headers,
                allow_redirects=False,
                compress=False,
                timeout=self._timeout,
            )
        return httpx.Response(response.status, headers=response.raw_headers, stream=AiohttpResponseStream(response))
