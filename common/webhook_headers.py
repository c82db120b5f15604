"""Which headers a subscription can add to its deliveries. Pure."""

import re

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token of RFC 9110
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,2000}[\x21-\x7e])?")
_OWN = {"accept-encoding", "content-encoding", "content-length", "content-type", "host", "user-agent"}
_TRACE = {"traceparent", "tracestate"}
_CONNECTION = {"connection", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
_RESERVED = _OWN | _TRACE | _CONNECTION
_RESERVED_PREFIXES = ("webhook-", "proxy-")


def find_header_error(name: str, value: str) -> str | None:
    """Return what is wrong with a header, as words after its name, or None."""
    if not _NAME.fullmatch(name):
        return "is not the name of a header, such as X-Team"
    if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIXES):
        return "is set by Charonia; leave it out"
    if not _VALUE.fullmatch(value):
        return "has a value that is not 1 to 2000 visible ASCII characters"
    return None
