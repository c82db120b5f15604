"""The headers of a webhook. Pure."""

from collections.abc import Mapping

from common import VERSION
from common.webhook_headers import find_header_error


def compose(
    custom: Mapping[str, str], *, message_id: str, timestamp: int, signature: str, traceparent: str
) -> dict[str, str]:
    """Return all headers of one attempt, with the custom headers that are allowed."""
    allowed = {name.lower(): value for name, value in custom.items() if find_header_error(name, value) is None}
    return allowed | {
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"Charonia/{VERSION}",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature,
        "traceparent": traceparent,
    }
