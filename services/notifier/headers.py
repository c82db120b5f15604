"""The headers of a webhook. Pure."""

import re
from collections.abc import Mapping
from importlib import metadata

TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# Ours, and those that belong to the connection: a subscription may not set them.
RESERVED = frozenset(
    {
        *("accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host"),
        *("keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
        *("traceparent", "tracestate", "webhook-id", "webhook-signature", "webhook-timestamp"),
    }
)


def find_version() -> str:
    try:
        return metadata.version("charonia")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "dev"


USER_AGENT = f"Charonia/{find_version()}"


def compose(
    custom: Mapping[str, str], *, message_id: str, timestamp: int, signature: str, traceparent: str
) -> dict[str, str]:
    """All headers of one attempt; of the custom ones those that are allowed and that HTTP can carry."""
    allowed = {name.lower(): value for name, value in custom.items() if is_allowed(name, value)}
    return allowed | {
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": USER_AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature,
        "traceparent": traceparent,
    }


def is_allowed(name: str, value: str) -> bool:
    readable = value.isascii() and value.isprintable()
    return (
        readable
        and name.lower() not in RESERVED
        and not name.lower().startswith("proxy-")
        and bool(TOKEN.fullmatch(name))
    )
