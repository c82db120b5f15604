"""Request and response bodies of webhooks and deliveries. Unknown request fields are refused."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from common.views.delivery import DeliveryAttempt, DeliveryView
from common.views.job import Time
from services.gateway.http.problems import FieldError
from services.gateway.jobs.schemas import EventPattern, Name, Url

# PostgreSQL text cannot contain NUL.
Text = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00]*$")]
RateLimit = Annotated[int, Meta(ge=1, le=10_000, description="attempts per second")]


class CreateWebhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Url
    events: Annotated[list[EventPattern], Meta(min_length=1, max_length=50)] = msgspec.field(
        default_factory=lambda: ["job.*"]
    )
    models: Annotated[list[Name], Meta(min_length=1, max_length=100)] | None = None
    description: Text | None = None
    headers: Annotated[dict[str, str], Meta(max_length=20)] | None = None
    signing: Literal["hmac", "ed25519"] = "hmac"
    rate_limit: RateLimit | None = None
    ordered: bool = False


class ChangeWebhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A missing field keeps its value. Null clears it."""

    url: Url | msgspec.UnsetType = msgspec.UNSET
    events: Annotated[list[EventPattern], Meta(min_length=1, max_length=50)] | msgspec.UnsetType = msgspec.UNSET
    models: Annotated[list[Name], Meta(min_length=1, max_length=100)] | msgspec.UnsetType | None = msgspec.UNSET
    description: Text | msgspec.UnsetType | None = msgspec.UNSET
    headers: Annotated[dict[str, str], Meta(max_length=20)] | msgspec.UnsetType | None = msgspec.UNSET
    rate_limit: RateLimit | msgspec.UnsetType | None = msgspec.UNSET
    ordered: bool | msgspec.UnsetType = msgspec.UNSET


class WebhookView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subscription.

    `secret` (for ed25519 the public key) appears once, on creation. Header values never appear.
    `warnings` appear in the answer to a request that is valid but probably a mistake.
    `disabled_reason` is `gone` after a 410, and `failing` after days without a success.
    """

    id: str
    url: str
    events: list[str]
    models: list[str] | None
    description: str | None
    headers: dict[str, str] | None
    signing: Literal["hmac", "ed25519"]
    rate_limit: int | None
    ordered: bool
    status: Literal["enabled", "disabled"]
    disabled_at: Time | None
    disabled_reason: Literal["gone", "failing"] | None
    created_at: Time
    secret: str | msgspec.UnsetType = msgspec.UNSET
    old_secret_until: Time | msgspec.UnsetType | None = msgspec.UNSET
    public_key: str | msgspec.UnsetType = msgspec.UNSET
    warnings: list[FieldError] | msgspec.UnsetType = msgspec.UNSET


class WebhookPage(msgspec.Struct, frozen=True):
    items: list[WebhookView]
    next_cursor: str | None


class SecretView(msgspec.Struct, frozen=True):
    """The tenant's secret, which signs callbacks of single jobs.

    After a rotation, `old_secret_until` is when the old secret stops signing.
    """

    secret: str
    old_secret_until: Time | msgspec.UnsetType | None = msgspec.UNSET


class Rotate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`grace_period` is how many seconds the old secret still signs. 0 ends all old secrets at once."""

    grace_period: Annotated[float, Meta(ge=0, le=2_592_000)] = 86_400.0


class Recover(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The period in which the deliveries were created. `until` defaults to now."""

    since: Annotated[datetime, Meta(tz=True)]
    until: Annotated[datetime, Meta(tz=True)] | None = None


class RecoveryView(msgspec.Struct, frozen=True, kw_only=True):
    """`recovered` counts the deliveries that were made pending again so far."""

    id: str
    webhook_id: str
    since: Time
    until: Time
    status: Literal["running", "done"]
    recovered: int


class TestData(msgspec.Struct, frozen=True):
    webhook_id: str
    description: str | None


class TestBody(msgspec.Struct, frozen=True):
    """The body of a `webhook.test` event."""

    type: str
    timestamp: Time
    data: TestData


class TestView(DeliveryAttempt, frozen=True, kw_only=True):
    """The attempt that the test made."""

    delivery_id: str


class DeliveryPage(msgspec.Struct, frozen=True):
    items: list[DeliveryView]
    next_cursor: str | None
