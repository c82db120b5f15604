"""Which hosts a request with the development key may name: a guard against DNS rebinding.

A page in a browser can let the name of its own site lead to this machine, and then call the gateway as its own site.
The browser sends that name as `Host`. Pure.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

PRIVATE_DOMAINS = (
    ".localhost",
    ".internal",
)  # which nobody can register (RFC 6761, ICANN 2024.07.29.06)


def is_safe_host(header: str | None, public_url: str) -> bool:
    """Return whether the `Host` of a request is an address, a name without a domain, or that of the public URL."""
    try:
        host = (urlsplit(f"//{header or ''}").hostname or "").rstrip(".")
    except ValueError:
        return False
    return bool(host) and (
        "." not in host or host.endswith(PRIVATE_DOMAINS) or host == urlsplit(public_url).hostname or _is_address(host)
    )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
