"""Connections to checked addresses only.

The resolver checks every answer; the maker of sockets checks the address once more right before it connects, which
covers literal addresses too, as no resolver ever sees those.
"""

import socket
import ssl
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from common.addresses import Policy, check_address, check_port
from common.errors import AddressRefused
from common.lookup import resolve
from services.notifier.bounds import Answer, bound
from services.notifier.egress import ProxyConnector

KEEP_ALIVE_SECONDS = 4.0  # below the 5 s of common servers: a connection they close under a request costs an attempt
MAX_HEADER = 8190  # bytes
MAX_HEADERS = 128

# (family, type, protocol, canonical name, address), as of getaddrinfo
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class ForbiddenConnection(OSError):
    """An AddressRefused in a shape that aiohttp passes on from inside a connection attempt."""


class CheckedResolver(AbstractResolver):
    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await resolve(host, port)
        for _, address in found:
            check_address(address, self.policy)
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


def open_session(policy: Policy, concurrency: int, *, proxied: bool = False) -> aiohttp.ClientSession:
    """A session without cookies, proxies or netrc of the environment; at most `concurrency` connections.

    Where all of them go to a proxy, which may be anywhere, no address is checked here.
    """

    def make_socket(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        try:
            if not proxied:
                check_address(str(address[0]), policy)
                check_port(int(address[1]))
        except AddressRefused as error:
            raise ForbiddenConnection(str(error)) from error
        return socket.socket(family, kind, protocol)

    trust = ssl.create_default_context()  # of the system, or of SSL_CERT_FILE and SSL_CERT_DIR
    trust.set_alpn_protocols(["http/1.1"])
    kind = ProxyConnector if proxied else aiohttp.TCPConnector
    connector = kind(
        ssl=trust,
        resolver=None if proxied else CheckedResolver(policy),
        socket_factory=make_socket,
        limit=concurrency,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
    )
    bound(connector)
    return aiohttp.ClientSession(
        connector=connector,
        response_class=Answer,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        max_line_size=MAX_HEADER,
        max_field_size=MAX_HEADER,
        max_headers=MAX_HEADERS,
    )
