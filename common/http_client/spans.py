"""What spans of requests show."""

from urllib.parse import urlsplit


def describe_url(method: str, url: str) -> dict[str, str | int]:
    """Return the attributes of a request, without the path of its URL: who knows the path may be able to use it."""
    attributes: dict[str, str | int] = {"http.request.method": method}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        return attributes
    full = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/REDACTED"
    return attributes | {"server.address": host, "server.port": port, "url.full": full}
