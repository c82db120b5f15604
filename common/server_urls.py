"""URLs of servers that name several hosts: `amqp://user:password@a:5672,b:5672/vhost`."""

import re
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

# The resolver raises UnicodeError for a part of a name that is empty or over 63 characters. A host may also be an IPv6
# address, or the folder of a socket.
_HOST = re.compile(r"(?:[^\s./]{1,63}\.)*[^\s./]{1,63}\.?|\[[^\s]*]|/.*")
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "cafile", "certfile", "keyfile")  # parameters of clients
DEFAULT_PORTS = {"postgres": 5432, "postgresql": 5432, "amqp": 5672, "amqps": 5671}


def is_server_url(url: str) -> bool:
    """Return whether clients can parse the URL. A password with a plain / # ? or @ changes its meaning."""
    try:
        parts = urlsplit(url)
        login, _, netloc = parts.netloc.rpartition("@")
        hosts = netloc.split(",")
        for host in hosts:
            _ = urlsplit(f"//{host}").port  # raises ValueError for a wrong port
        if parts.scheme.startswith("postgres"):
            query = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
            if "@" in login or any("," in each for each in query.get("host", [])):
                return False
    except ValueError:
        return False
    several_urls, unnamed = url.count("://") > 1, len(hosts) > 1 and not all(map(_host_of, hosts))
    if not all(_HOST.fullmatch(name) for host in hosts if (name := _host_of(host))):
        return False
    return not several_urls and not unnamed and ("@" in parts.netloc or "@" not in url)


def find_missing_file(url: str) -> str | None:
    """Return the parameter that names a file which does not exist: `sslrootcert=/ca.pem`. Clients do not say which."""
    parameters = parse_qs(urlsplit(url).query)
    return next(
        (f"{name}={file}" for name in _FILES for file in parameters.get(name, ()) if not Path(file).is_file()), None
    )


def split_by_node(url: str) -> dict[str, str]:
    """Return a URL for each host, by the name of the node. A name is `host:port`, and has no password."""
    parts = urlsplit(url)
    login, at, netloc = parts.netloc.rpartition("@")
    rest = url.removeprefix(f"{parts.scheme}://").removeprefix(parts.netloc)
    return {
        _name(parts.scheme, host, parts.query): f"{parts.scheme}://{login}{at}{host}{rest}"
        for host in netloc.split(",")
    }


def _name(scheme: str, host: str, query: str) -> str:
    default = DEFAULT_PORTS[scheme]
    if name := _host_of(host):
        return f"{name}:{urlsplit(f'//{host}').port or default}"
    values = parse_qs(query)
    port = values.get("port", [""])[-1]
    return f"{values.get('host', ['localhost'])[-1]}:{port if port.isdecimal() else default}"


def _host_of(host: str) -> str:
    """Return the host of `host:port`, with the brackets of an IPv6 address."""
    name = urlsplit(f"//{host}").hostname or ""
    return f"[{name}]" if ":" in name else unquote(name)
