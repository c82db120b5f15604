"""Which URLs of clients may be called: a guard against server-side request forgery (SSRF).

The gateway checks when a URL is given, so that a person sees the reason. The notifier or the dispatcher that calls it
checks again right before each connection, because names change their addresses. That second check is the one that
protects us.
"""

import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

import idna
import msgspec

from common.errors import AddressRefused, SettingsError
from common.security.dns import resolve
from common.security.special_networks import BLOCKED_PORTS, IPV4_IN_IPV6, PUBLIC_IPV6, SPECIAL_NETWORKS, Network

MAX_URL = 2048

_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?")
_FORBIDDEN = re.compile(r"[^\x21-\x7e\xa1-\U0010ffff]|\\")  # URL parsers disagree about these


class AddressPolicy(msgspec.Struct, frozen=True):
    """`allowed` networks override the special networks. `allow_http` also allows plain http."""

    allowed: tuple[Network, ...] = ()
    allow_http: bool = False

    @classmethod
    def parse(
        cls, networks: Sequence[str], allow_http: bool, setting: str = "CHARONIA_WEBHOOK_NETWORKS"
    ) -> "AddressPolicy":
        """Return the policy of the settings. Raise SettingsError, with the setting's name, for a wrong network."""
        try:
            return cls(tuple(ip_network(network) for network in networks), allow_http)
        except ValueError as error:
            raise SettingsError(
                f"{setting} is wrong: {error}. Expected networks such as 10.1.0.0/16, with commas."
            ) from error


def check_url(url: str, policy: AddressPolicy, longest: int = MAX_URL) -> str:
    """Return the host to look up. Raise AddressRefused if the URL itself is not allowed."""
    host = _split(url, policy, longest).hostname or ""
    if (literal := _read_literal(host)) is not None:
        check_address(literal, policy)
    return _check_name(host)


async def check_host(url: str, policy: AddressPolicy) -> None:
    """Check the URL, and every address of its host. Raise AddressRefused if one is not allowed.

    A temporary failure of DNS passes: it is not the client's fault, and each send checks again.
    """
    host = check_url(url, policy)
    try:
        found = await resolve(host, urlsplit(url).port or 443)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            return
        raise AddressRefused(f"the host {host} has no address") from error
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"the host {host} cannot be looked up: it is not a name that DNS knows") from error
    for _, address in found:
        check_address(address, policy)


def check_address(address: str, policy: AddressPolicy) -> None:
    """Raise AddressRefused for an IP address that is not public. An IPv4 address inside IPv6 is checked too."""
    checked = ip_address(address.partition("%")[0])
    if isinstance(checked, IPv6Address) and (inner := _embedded_ipv4(checked)) is not None:
        check_address(str(inner), policy)
    if any(checked in network for network in policy.allowed):
        return
    kind = next((kind for network, kind in SPECIAL_NETWORKS if checked in network), None)
    if kind is None and isinstance(checked, IPv6Address) and checked not in PUBLIC_IPV6:
        kind = "not in use on the internet"
    if kind is not None:
        raise AddressRefused(f"requests to {address} are not allowed: the address is {kind}")


def check_port(port: int) -> None:
    """Raise AddressRefused for a port of another protocol."""
    if port in BLOCKED_PORTS:
        raise AddressRefused(f"requests to port {port} are not allowed: it belongs to another protocol")


def _split(url: str, policy: AddressPolicy, longest: int) -> SplitResult:
    if len(url) > longest:
        raise AddressRefused(f"the URL may have at most {longest} characters")
    if _FORBIDDEN.search(url):
        raise AddressRefused("the URL may not have spaces, control characters or backslashes: encode them")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressRefused(
            "this is not a URL: its port must be 1 to 65535, and an IPv6 address is in brackets; "
            "write it like https://example.com/path"
        ) from error
    if parts.scheme != "https" and not (parts.scheme == "http" and policy.allow_http):
        schemes = "https:// or http://" if policy.allow_http else "https://"
        raise AddressRefused(f"the URL must start with {schemes}, like https://example.com/path")
    if "@" in parts.netloc:
        raise AddressRefused(
            "the URL may not have a user name or password: use the headers of a webhook, or the signed URL of an input"
        )
    if not parts.hostname or "%" in parts.netloc or ("[" in parts.netloc and ":" not in parts.hostname):
        raise AddressRefused("the URL needs a plain host name")
    if "#" in url:
        raise AddressRefused("the URL may not have a fragment (#): it is never sent")
    if port is not None:
        check_port(port)
    return parts


def _check_name(host: str) -> str:
    """Return the host in ASCII. Raise AddressRefused for a wrong name, or one that URL parsers disagree about.

    Python's own codec would not do: for some names its result differs from that of httpx.
    """
    try:
        ip_address(host)
    except ValueError:
        pass
    else:
        return host
    try:
        name = host if host.isascii() else idna.encode(host).decode()
    except idna.IDNAError as error:
        raise AddressRefused(f"the host {host[:100]} is not a host name") from error
    if _read_literal(name) is not None:
        raise AddressRefused("write the address in its usual form, such as 192.0.2.1")
    if not _HOST.fullmatch(name):
        raise AddressRefused(f"the host {host[:100]} is not a host name")
    return name


def _read_literal(host: str) -> str | None:
    """Return the address if the host is one, in any form (also decimal, hex, octal, short). Return None for a name."""
    text = host.rstrip(".")
    try:
        return str(ip_address(text))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(text))
    except (OSError, UnicodeError):
        return None


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    if any(address in network for network in IPV4_IN_IPV6):
        return None if int(address) <= 1 else IPv4Address(int(address) & 0xFFFFFFFF)  # :: and ::1 embed nothing
    return address.sixtofour or (address.teredo[1] if address.teredo else None)
