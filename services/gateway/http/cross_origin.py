"""CORS: which origins' pages may call the API from a browser. Other clients do not care."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from litestar.config.cors import CORSConfig

from common.errors import SettingsError

LABEL = "[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
NAME = re.compile(rf"{LABEL}(\.{LABEL})*\.?")
OWN_PORTS = {"http": 80, "https": 443}  # browsers leave them out
WITHOUT_PAGES = ("file", "ftp", "ws", "wss")  # schemes that no origin of a page has; apps have others of their own
PREFLIGHT_SECONDS = 7200  # for which a browser remembers that it may call a path: the most that Chromium takes
FORM = (
    "Expected a scheme, a host in lower case, and a port unless it is the scheme's own, such as "
    "https://app.example.com or http://localhost:5173, with commas between origins."
)
ANY = "Name each origin: with * every page that somebody visits could call this gateway from their network."


def allow_origins(origins: Sequence[str]) -> CORSConfig | None:
    """Return the rules for these origins, or None if there are none. Raise SettingsError for a wrong one.

    A page sends its key itself and no cookies. So an allowed page may send and read every header.
    """
    for origin in origins:
        if not _is_origin(origin):
            reason = ANY if "*" in origin else FORM
            raise SettingsError(f"CHARONIA_CORS_ORIGINS is wrong: {origin!r} is not an origin. {reason}")
    if not origins:
        return None
    return CORSConfig(allow_origins=[*origins], expose_headers=["*"], max_age=PREFLIGHT_SECONDS)


def _is_origin(text: str) -> bool:
    """Return whether a browser may send this text: it has no other form, and nothing besides the three parts."""
    try:
        parts = urlsplit(text)
        host, port = _write_host(parts.hostname or ""), parts.port
    except ValueError:
        return False
    if parts.scheme in WITHOUT_PAGES or port in (0, OWN_PORTS.get(parts.scheme, 0)):
        return False
    return text == f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")


def _write_host(host: str) -> str:
    """Return a host as browsers write it; raise ValueError if it is neither an address nor a name."""
    if ":" in host:
        return f"[{IPv6Address(host.partition('%')[0])}]"  # without a zone, which no origin has
    if host.split(".")[-1].isdigit():
        return str(IPv4Address(host))
    if not NAME.fullmatch(host):
        raise ValueError(host)
    return host
