"""Which headers a subscription may add to its deliveries. Pure."""

import re

NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # a token of RFC 9110
VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,2000}[\x21-\x7e])?")
# Ours, and those that belong to the connection.
RESERVED = frozenset(
    {
        *("accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host"),
        *("keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "traceparent", "tracestate"),
    }
)
RESERVED_PREFIXES = ("webhook-", "proxy-")


def find_mistake(name: str, value: str) -> str | None:
    """What is wrong with a header, in words that follow its name; None where it may be sent."""
    if not NAME.fullmatch(name):
        return "is not the name of a header"
    if name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIXES):
        return "is set by Charonia"
    if not VALUE.fullmatch(value):
        return "has a value that is not 1 to 2000 visible ASCII characters"
    return None
