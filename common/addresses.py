"""Where webhooks may be sent: a guard against requests forged through us (SSRF).

The gateway asks when a URL is given, so that a person reads the reason; the notifier asks again right before every
connection, which is the check that counts: names change their addresses.
"""

import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

import idna
import msgspec

from common.errors import AddressRefused, SettingsError
from common.lookup import resolve

MAX_URL = 2048

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

# Everything in the registries of special addresses (RFC 6890 and its later entries), not what
# `ipaddress.is_global` makes of them: that calls 64:ff9b::a9fe:a9fe, fec0::1 and 168.63.129.16 global.
NETWORKS: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier (CGNAT)"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's internal service"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "for documentation"),
        ("192.31.196.0/24", "reserved for protocols"),
        ("192.52.193.0/24", "reserved for protocols"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "reserved for protocols"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "IPv4 inside IPv6"),
        ("::/96", "IPv4 inside IPv6"),
        ("64:ff9b::/96", "IPv4 inside IPv6 (NAT64)"),
        ("64:ff9b:1::/48", "IPv4 inside IPv6 (NAT64)"),
        ("2001::/32", "IPv4 inside IPv6 (Teredo)"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "IPv4 inside IPv6 (6to4)"),
        ("2620:4f:8000::/48", "reserved for protocols"),
        ("3fff::/20", "for documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
UNICAST = IPv6Network("2000::/3")  # the only part of IPv6 that is given out for the public internet
MAPPED, COMPATIBLE, NAT64 = IPv6Network("::ffff:0:0/96"), IPv6Network("::/96"), IPv6Network("64:ff9b::/96")

# The "bad ports" of the Fetch standard, and the usual ports of databases, brokers and the like.
PORTS = frozenset(
    {
        *(0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43),
        *(53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119),
        *(123, 135, 137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515, 526, 530),
        *(531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1433, 1521, 1719),
        *(1720, 1723, 2049, 3306, 3389, 3659, 4045, 4190, 4369, 5060, 5061, 5432, 5671, 5672, 6000, 6379, 6566),
        *(6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211, 25672, 27017),
    }
)
HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?")
FORBIDDEN = re.compile(r"[^\x21-\x7e\xa1-\U0010ffff]|\\")  # what parsers of URLs read in different ways


class Policy(msgspec.Struct, frozen=True):
    """`allowed` networks are open whatever the table says; `allow_http` lets URLs be plain http."""

    allowed: tuple[Network, ...] = ()
    allow_http: bool = False

    @classmethod
    def parse(cls, allowed_networks: Sequence[str], allow_http: bool) -> "Policy":
        """From settings; raises SettingsError for what is not a network such as 10.1.0.0/16."""
        try:
            return cls(tuple(ip_network(network) for network in allowed_networks), allow_http)
        except ValueError as error:
            raise SettingsError(f"CHARONIA_ALLOWED_NETWORKS is wrong: {error}") from error


def check_url(url: str, policy: Policy) -> str:
    """The host, as it is looked up. Raises AddressRefused where the URL itself says that it may not be used."""
    host = split(url, policy).hostname or ""
    if (literal := read_literal(host)) is not None:
        check_address(literal, policy)
    return check_name(host)


async def check_host(url: str, policy: Policy) -> None:
    """As `check_url`, and every address of the host.

    A name that can't be looked up at the moment passes: that is not the client's fault, and each send looks again.
    """
    host = check_url(url, policy)
    try:
        found = await resolve(host, urlsplit(url).port or 443)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            return
        raise AddressRefused(f"the host {host} has no address") from error
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"the host {host} can't be looked up: {error}") from error
    for _, address in found:
        check_address(address, policy)


def check_address(address: str, policy: Policy) -> None:
    """Raises AddressRefused for an IP address that is not public; IPv4 embedded in IPv6 must be allowed as well."""
    checked = ip_address(address.partition("%")[0])
    if isinstance(checked, IPv6Address) and (inner := embedded(checked)) is not None:
        check_address(str(inner), policy)
    if any(checked in network for network in policy.allowed):
        return
    kind = next((kind for network, kind in NETWORKS if checked in network), None)
    if kind is None and isinstance(checked, IPv6Address) and checked not in UNICAST:
        kind = "not in use on the internet"
    if kind is not None:
        raise AddressRefused(f"webhooks may not be sent to {address}: the address is {kind}")


def check_port(port: int) -> None:
    if port in PORTS:
        raise AddressRefused(f"webhooks may not be sent to port {port}: it belongs to another protocol")


def split(url: str, policy: Policy) -> SplitResult:
    if len(url) > MAX_URL:
        raise AddressRefused(f"a webhook's URL may be no longer than {MAX_URL} characters")
    if FORBIDDEN.search(url):
        raise AddressRefused("a webhook's URL may have no spaces, control characters or backslashes: encode them")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressRefused(f"this is not a URL: {error}") from error
    if parts.scheme != "https" and not (parts.scheme == "http" and policy.allow_http):
        raise AddressRefused("a webhook's URL starts with https://")
    if "@" in parts.netloc:
        raise AddressRefused("a webhook's URL may carry no user name or password: use the subscription's headers")
    if not parts.hostname or "%" in parts.netloc or ("[" in parts.netloc and ":" not in parts.hostname):
        raise AddressRefused("a webhook's URL needs a plain host name")
    if "#" in url:
        raise AddressRefused("a webhook's URL may have no fragment (#): it is never sent")
    if port is not None:
        check_port(port)
    return parts


def check_name(host: str) -> str:
    """The host in ASCII. Raises AddressRefused for one that no connection can be made to, or that parsers read in
    different ways; so not by Python's own codec, which has other names for some than httpx, for others one more."""
    try:
        ip_address(host)
    except ValueError:
        pass
    else:
        return host
    try:
        name = host if host.isascii() else idna.encode(host).decode()
    except idna.IDNAError as error:
        raise AddressRefused(f"the host {host[:100]} is not a name: {error}") from error
    if read_literal(name) is not None:
        raise AddressRefused("write the address in its usual form, such as 192.0.2.1")
    if not HOST.fullmatch(name):
        raise AddressRefused(f"the host {host[:100]} is not a name")
    return name


def read_literal(host: str) -> str | None:
    """The address that a host already is, also in decimal, hex, octal and short forms; None for a name."""
    text = host.rstrip(".")
    try:
        return str(ip_address(text))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(text))
    except (OSError, UnicodeError):
        return None


def embedded(address: IPv6Address) -> IPv4Address | None:
    if any(address in network for network in (MAPPED, COMPATIBLE, NAT64)):
        return None if int(address) <= 1 else IPv4Address(int(address) & 0xFFFFFFFF)  # :: and ::1 embed nothing
    return address.sixtofour or (address.teredo[1] if address.teredo else None)
