"""The headers of a webhook. Pure."""

from collections.abc import Mapping

from common import VERSION
from common.webhook_headers import find_mistake


def compose(
    custom: Mapping[str, str], *, message_id: str, timestamp: int, signature: str, traceparent: str
) -> dict[str, str]:
    """All headers of one attempt; of the custom ones those that may be sent."""
    allowed = {name.lower(): value for name, value in custom.items() if find_mistake(name, value) is None}
    return allowed | {
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"Charonia/{VERSION}",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature,
        "traceparent": traceparent,
    }
