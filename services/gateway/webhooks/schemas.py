"""Request and response bodies of webhooks and deliveries. Unknown request fields are refused."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from common.event_types import DELIVERED_TYPES
from common.views.delivery import DeliveryAttempt, DeliveryView
from common.views.job import Time
from services.gateway.events.event_types import document_patterns
from services.gateway.http.problems import FieldError
from services.gateway.jobs.schemas import Url

# PostgreSQL text cannot contain NUL.
NO_NUL = r"^[^\x00]*$"
Text = Annotated[str, Meta(max_length=1000, pattern=NO_NUL)]
# The name of a model. Wildcards are refused, so that a later release may give them a meaning.
ModelName = Annotated[
    str, Meta(min_length=1, max_length=255, pattern=NO_NUL, extra_json_schema={"pattern": r"^[^\x00*?\[\]]*$"})
]
EventPattern = Annotated[str, Meta(max_length=100, extra_json_schema=document_patterns(DELIVERED_TYPES))]
Count = Annotated[int, Meta(ge=0)]
RateLimit = Annotated[int, Meta(ge=0, le=10_000)]


Format = Literal["charonia", "openai"]


class CreateWebhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A subscription to create."""

    url: Url
    """The URL to send to: https, to a public address."""
    events: Annotated[list[EventPattern], Meta(min_length=1, max_length=50)] | msgspec.UnsetType = msgspec.UNSET
    """The events to send, by type or pattern. `*` stands for one word, and alone for every type of the `format`.

    By default `job.*`, or with the format `openai` all that it has.
    """
    models: Annotated[list[ModelName], Meta(min_length=1, max_length=100)] | None = None
    """Sends only events of these models, and those that belong to no model. By default of all models.

    These are whole names, without `*`, `?`, `[` and `]`.
    """
    description: Text | None = None
    """A note of yours."""
    headers: Annotated[dict[str, str], Meta(max_length=20)] | None = None
    """Headers to send along. No answer shows their values."""
    signing: Literal["hmac", "ed25519"] = "hmac"
    """How to sign: with a shared secret (`hmac`), or with a key whose public half verifies (`ed25519`)."""
    format: Format = "charonia"
    """In whose words events are sent. With `openai` only responses and batches of OpenAI's API have events.

    Their types are OpenAI's, such as `response.completed`, and OpenAI's clients verify and read them. They verify
    `hmac` only. It cannot be changed later.
    """
    rate_limit: RateLimit | None = None
    """How many attempts a second the receiver gets at most; 0 for any number. By default that of the server, now 0."""
    ordered: bool = False
    """Whether a later event of a job waits until the earlier one is delivered or given up."""


class ChangeWebhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A missing field keeps its value. Null clears it."""

    url: Url | msgspec.UnsetType = msgspec.UNSET
    """The URL to send to. Pending deliveries go there, too."""
    events: Annotated[list[EventPattern], Meta(min_length=1, max_length=50)] | msgspec.UnsetType = msgspec.UNSET
    """The events to send, by type or pattern."""
    models: Annotated[list[ModelName], Meta(min_length=1, max_length=100)] | msgspec.UnsetType | None = msgspec.UNSET
    """Sends only events of these models, and those that belong to no model."""
    description: Text | msgspec.UnsetType | None = msgspec.UNSET
    """A note of yours."""
    headers: Annotated[dict[str, str], Meta(max_length=20)] | msgspec.UnsetType | None = msgspec.UNSET
    """Headers to send along. They replace all earlier ones. The value `***` keeps the header's present value.

    If the URL gets another origin, send the values again, or null: they may be credentials.
    """
    rate_limit: RateLimit | msgspec.UnsetType | None = msgspec.UNSET
    """How many attempts a second the receiver gets at most; 0 for any number, null for the server's default."""
    ordered: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether a later event of a job waits until the earlier one is delivered or given up."""


class WebhookView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subscription."""

    id: str
    """The id of the subscription."""
    url: str
    """The URL that events are sent to. Keys without the scope `admin` do not see its query."""
    events: list[str]
    """The events that are sent, by type or pattern."""
    models: list[str] | None
    """Only events of these models are sent, and those that belong to no model; null for all models."""
    description: str | None
    """Your note; null without one."""
    headers: dict[str, str] | None
    """The headers that are sent along, with `***` for each value; null without any."""
    signing: Literal["hmac", "ed25519"]
    """How events are signed."""
    format: Format
    """In whose words events are sent."""
    rate_limit: int | None
    """How many attempts a second the receiver gets at most; 0 for any number, null for the server's default, now 0."""
    ordered: bool
    """Whether a later event of a job waits until the earlier one is delivered or given up."""
    status: Literal["enabled", "disabled"]
    """Whether events are sent."""
    disabled_at: Time | None
    """When the subscription was disabled; null while it is enabled."""
    disabled_reason: Literal["gone", "failing", "manual"] | None
    """`gone` after a 410, `failing` after days without a success, `manual` after a call; null while it is enabled."""
    created_at: Time
    """When the subscription was created."""
    secret: str | msgspec.UnsetType = msgspec.UNSET
    """The key that verifies the signatures of an `hmac` subscription, shown only when it is new."""
    old_secret_until: Time | msgspec.UnsetType | None = msgspec.UNSET
    """After a rotation: until when the previous secret signs too; null if it has ended already."""
    public_key: str | msgspec.UnsetType = msgspec.UNSET
    """The key that verifies the signatures of an `ed25519` subscription."""
    warnings: list[FieldError] | msgspec.UnsetType = msgspec.UNSET
    """Only after a request that is valid but probably a mistake: what it names, such as a model that is unknown now."""


class WebhookPage(msgspec.Struct, frozen=True):
    """A page of subscriptions."""

    items: list[WebhookView]
    """The subscriptions, oldest first."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""


class AttemptDuration(msgspec.Struct, frozen=True):
    """In whole milliseconds, null without attempts that succeeded."""

    p50: Count | None
    """Half of the attempts took no longer."""
    p95: Count | None
    """95 % of the attempts took no longer."""


class DeliveryWindow(msgspec.Struct, frozen=True, kw_only=True):
    """How deliveries went within a time, up to now."""

    succeeded: Count
    """How many deliveries succeeded."""
    failed: Count
    """How many deliveries were exhausted."""
    failed_attempts: Count
    """How many attempts failed, also of deliveries that succeeded later or are pending."""
    success_rate: float | None
    """The share of attempts that succeeded, from 0 to 1; null without an attempt."""
    duration_ms: AttemptDuration
    """How long attempts took that succeeded."""


class WebhookHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How the deliveries of a subscription went."""

    webhook_id: str
    """The id of the subscription."""
    circuit: Literal["closed", "open"]
    """`open` after failures in a row: then there is one attempt now and then, until one succeeds."""
    failing_since: Time | None
    """When the first attempt failed since the last success; null if the last one succeeded."""
    pending: Count
    """How many deliveries are pending. At most as many are counted as deliveries are read."""
    oldest_due_at: Time | None
    """Since when the oldest pending delivery is due; null if none is."""
    counted_since: Time | None
    """Both times below count only deliveries that were created since then, the newest ones; null if they count all."""
    last_60_minutes: DeliveryWindow
    """What ended, and what was tried, in the last 60 minutes."""
    last_24_hours: DeliveryWindow
    """The same for the last 24 hours."""


class WebhookHealthPage(msgspec.Struct, frozen=True):
    """A page of the health of subscriptions."""

    items: list[WebhookHealth]
    """The health of each subscription, the oldest subscription first."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""


class SecretView(msgspec.Struct, frozen=True):
    """The tenant's secret, which signs callbacks of single jobs."""

    secret: str
    """The secret."""
    old_secret_until: Time | msgspec.UnsetType | None = msgspec.UNSET
    """After a rotation: until when the previous secret signs too; null if it has ended already."""


class Rotate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to rotate a secret."""

    grace_period: Annotated[float, Meta(ge=0, le=2_592_000)] = 86_400.0
    """How many seconds the old secret signs too. 0 ends all old secrets at once."""


class Recover(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The period in which the deliveries were created."""

    since: Annotated[datetime, Meta(tz=True)]
    """The start of the period."""
    until: Annotated[datetime, Meta(tz=True)] | None = None
    """The end of the period, which must be after its start. By default it is now."""


class RecoveryView(msgspec.Struct, frozen=True, kw_only=True):
    """A recovery of failed deliveries."""

    id: str
    """The id of the recovery."""
    webhook_id: str
    """The subscription whose deliveries it recovers."""
    since: Time
    """The start of the period in which the deliveries were created."""
    until: Time
    """The end of that period."""
    status: Literal["processing", "completed"]
    """`completed` once every failed delivery of the period is pending again."""
    recovered: int
    """How many deliveries are pending again so far."""
    created_at: Time
    """When the recovery was requested."""


class TestView(DeliveryAttempt, frozen=True, kw_only=True):
    """The attempt that the test made."""

    delivery_id: str
    """The id of the delivery."""


class SentBody(msgspec.Struct, frozen=True, kw_only=True):
    """What every attempt of a delivery sends."""

    delivery_id: str
    """The id of the delivery, which is the header `webhook-id`."""
    body: str
    """The body of the request, byte for byte: the JSON of the event. The signature is made of these bytes."""


class DeliveryPage(msgspec.Struct, frozen=True):
    """A page of deliveries."""

    items: list[DeliveryView]
    """The deliveries, newest first."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""
