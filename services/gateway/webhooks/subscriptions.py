"""Validates subscriptions, and applies changes to them."""

from collections.abc import Collection, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from common.errors import AddressRefused
from common.event_types import EVENT_TYPES, OPENAI_EVENT_TYPES
from common.security.encryption import Encryptor
from common.security.ssrf import AddressPolicy, check_host
from common.webhook_headers import find_header_error
from services.gateway.events.event_types import explain_pattern, list_all_patterns
from services.gateway.http.problems import MAX_ERRORS, FieldError, escape, invalid
from services.gateway.http.validation.suggestions import list_names, suggest
from services.gateway.webhooks.audit_entries import read_headers
from services.gateway.webhooks.schemas import ChangeWebhook, CreateWebhook, Format
from services.gateway.webhooks.store import WebhookRow

TYPES: Mapping[Format, Sequence[str]] = {"charonia": EVENT_TYPES, "openai": OPENAI_EVENT_TYPES}
PATTERNS = {name: frozenset(list_all_patterns(types)) for name, types in TYPES.items()}
DEFAULT_EVENTS: Mapping[Format, list[str]] = {"charonia": ["job.*"], "openai": ["*"]}
WILDCARDS = frozenset("*?[]")
HIDDEN = "***"  # shown instead of a header's value, which may be a credential


def check_headers(headers: Mapping[str, str]) -> list[FieldError]:
    """Return one error for each header that Charonia cannot send."""
    first: dict[str, str] = {}
    errors = []
    for name, value in headers.items():
        mistake = find_header_error(name, value)
        if mistake is None and first.setdefault(name.lower(), name) != name:
            mistake = f"duplicates {first[name.lower()]}; header names ignore case"
        if mistake is not None:
            errors.append(FieldError(f"/headers/{escape(name)}", mistake))
    return errors


def restore_hidden(headers: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the present value for each `***`. Raises Problem (422) for one without such a value."""
    values = {name.lower(): value for name, value in present.items()}
    unknown = [name for name, value in headers.items() if value == HIDDEN and name.lower() not in values]
    if unknown:
        text = f"has no value that {HIDDEN} could keep at this URL; send the value itself"
        raise invalid(*[FieldError(f"/headers/{escape(name)}", text) for name in unknown])
    return {name: values[name.lower()] if value == HIDDEN else value for name, value in headers.items()}


def read_present(row: WebhookRow, change: ChangeWebhook, encryptor: Encryptor) -> dict[str, str]:
    """Return the headers whose values the change may keep: none at another origin, because they may be credentials.

    Raises Problem (422) if the change moves the subscription there, and says nothing of its headers.
    """
    if not change.url or not row.headers or find_origin(change.url) == find_origin(row.url):
        return read_headers(row, encryptor)
    if change.headers is msgspec.UNSET:
        text = "stay behind, because the url has another origin; send them again with their values, or null for none"
        raise invalid(FieldError("/headers", text))
    return {}


def find_origin(url: str) -> tuple[str, str | None, int | None]:
    """Return the scheme, the host and the port of a valid URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def check_patterns(events: Sequence[str], form: Format) -> list[FieldError]:
    """Return one error for each pattern that matches no event type of a format."""
    return [
        FieldError(f"/events/{index}", explain_pattern(pattern, TYPES[form]))
        for index, pattern in enumerate(events)
        if pattern not in PATTERNS[form]
    ]


def check_signing(given: CreateWebhook) -> list[FieldError]:
    """Return an error for a signature that the receivers of a format cannot verify."""
    if given.format == "openai" and given.signing != "hmac":
        return [FieldError("/signing", "must be hmac with the format openai: OpenAI's clients verify no other")]
    return []


def complete(given: CreateWebhook) -> CreateWebhook:
    """Return a new subscription with its events, which are those of its format by default."""
    if given.events is not msgspec.UNSET:
        return given
    return msgspec.structs.replace(given, events=DEFAULT_EVENTS[given.format])


def find_unknown_models(models: Sequence[str], known: Collection[str]) -> list[FieldError]:
    """Return a warning for each model that is unknown now. It may be added later, so it is no error."""
    warnings = []
    for index, model in enumerate(models):
        if model not in known:
            meant, names = suggest(model, known), list_names(sorted(known), "'") or "none"
            hint = f"did you mean '{meant}'?" if meant else f"known models: {names}"
            text = f"there is no model '{model}' now, so no event matches it yet; {hint}"
            warnings.append(FieldError(f"/models/{index}", text))
    return warnings[:MAX_ERRORS]


def check_models(models: Sequence[str]) -> list[FieldError]:
    """Return one error for each name with a wildcard."""
    text = "has one of * ? [ ], but must be the whole name of a model; list each model, or leave `models` out for all"
    return [FieldError(f"/models/{index}", text) for index, name in enumerate(models) if not WILDCARDS.isdisjoint(name)]


async def check_subscription(policy: AddressPolicy, given: CreateWebhook | ChangeWebhook, form: Format) -> None:
    """Raises Problem (422) with every invalid field. Unset fields are not checked."""
    errors = [
        *check_headers(given.headers or {}),
        *check_patterns(given.events or [], form),
        *check_models(given.models or []),
        *(check_signing(given) if isinstance(given, CreateWebhook) else ()),
    ]
    if given.url:
        try:
            await check_host(given.url, policy)
        except AddressRefused as error:
            errors.append(FieldError("/url", str(error)))
    if errors:
        raise invalid(*errors)


def apply_change(row: WebhookRow, change: ChangeWebhook, encryptor: Encryptor) -> WebhookRow:
    """Return the subscription with the given fields replaced. Raises Problem (422) for headers without a value."""
    present = read_present(row, change, encryptor)
    given = {
        name: value
        for name in ("url", "events", "models", "description", "rate_limit", "ordered")
        if (value := getattr(change, name)) is not msgspec.UNSET
    }
    if change.headers is not msgspec.UNSET:
        headers = restore_hidden(change.headers or {}, present)
        given["headers"] = encryptor.encrypt(msgspec.json.encode(headers)) if headers else None
    return msgspec.structs.replace(row, **given)
