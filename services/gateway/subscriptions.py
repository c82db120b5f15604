"""What a subscription may ask for, and what a change makes of it."""

from collections.abc import Mapping, Sequence

import msgspec

from common.addresses import Policy, check_host
from common.errors import AddressRefused
from common.jobs import EVENT_TYPES, list_patterns
from common.sealing import Sealer
from common.webhook_headers import find_mistake
from services.gateway.errors import FieldError, invalid
from services.gateway.tensors import escape
from services.gateway.webhook_schemas import ChangeWebhook
from services.gateway.webhook_store import WebhookRow

PATTERNS = frozenset(pattern for event_type in EVENT_TYPES for pattern in list_patterns(event_type))


def check_headers(headers: Mapping[str, str]) -> list[FieldError]:
    first: dict[str, str] = {}
    errors = []
    for name, value in headers.items():
        mistake = find_mistake(name, value)
        if mistake is None and first.setdefault(name.lower(), name) != name:
            mistake = f"is the same header as {first[name.lower()]}"
        if mistake is not None:
            errors.append(FieldError(f"/headers/{escape(name)}", mistake))
    return errors


def check_patterns(events: Sequence[str]) -> list[FieldError]:
    return [
        FieldError(f"/events/{index}", f"matches no event; the events are {', '.join(EVENT_TYPES)}")
        for index, pattern in enumerate(events)
        if pattern not in PATTERNS
    ]


async def check(
    policy: Policy,
    *,
    url: str | msgspec.UnsetType,
    events: Sequence[str] | msgspec.UnsetType,
    headers: Mapping[str, str] | msgspec.UnsetType | None,
) -> None:
    """Raises Problem (422) that names every field that can't be; what is not set is not looked at."""
    errors = check_headers(headers or {}) + check_patterns(events or [])
    if url:
        try:
            await check_host(url, policy)
        except AddressRefused as error:
            errors.append(FieldError("/url", str(error)))
    if errors:
        raise invalid(*errors)


def change(row: WebhookRow, asked: ChangeWebhook, sealer: Sealer) -> WebhookRow:
    """The subscription with what was asked for."""
    given = {
        name: value
        for name in ("url", "events", "models", "description", "rate_limit")
        if (value := getattr(asked, name)) is not msgspec.UNSET
    }
    if asked.headers is not msgspec.UNSET:
        given["headers"] = sealer.seal(msgspec.json.encode(asked.headers)) if asked.headers else None
    return msgspec.structs.replace(row, **given)
