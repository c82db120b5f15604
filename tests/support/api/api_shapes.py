"""The contract's shapes of batches and webhooks, decoded strictly. Those of jobs are in api_client.py."""

from datetime import datetime
from typing import Literal

import msgspec

Status = Literal["queued", "processing", "canceling", "succeeded", "failed", "canceled", "expired"]
DeliveryStatus = Literal["pending", "succeeded", "exhausted", "canceled"]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A shape that allows no other fields."""


class BatchUrls(Strict, frozen=True):
    self: str
    jobs: str
    results: str


class Batch(Strict, frozen=True):
    id: str
    status: Literal["processing", "completed"]
    total: int
    accepted: int
    counts: dict[Status, int]
    created_at: datetime
    finished_at: datetime | None
    canceled_at: datetime | None
    urls: BatchUrls


class FieldError(Strict, frozen=True):
    pointer: str
    detail: str


class ItemError(Strict, frozen=True):
    index: int
    custom_id: str | None
    type: str
    detail: str
    errors: list[FieldError]


class BatchAccepted(Batch, frozen=True):
    """A batch, and the items that were not accepted."""

    errors: list[ItemError]


class Subscription(Strict, frozen=True):
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
    disabled_at: datetime | None
    disabled_reason: Literal["gone", "failing", "manual"] | None
    created_at: datetime
    secret: str | None = None
    old_secret_until: datetime | None = None
    public_key: str | None = None
    warnings: list[FieldError] | None = None
    format: str | None = None  # a gateway of the release before does not say it


class Subscriptions(Strict, frozen=True):
    items: list[Subscription]
    next_cursor: str | None


class Secret(Strict, frozen=True):
    secret: str
    old_secret_until: datetime | None = None


class AttemptFailure(Strict, frozen=True):
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class SendAttempt(Strict, frozen=True):
    """One attempt to deliver a webhook."""

    number: int
    started_at: datetime
    duration_ms: int
    status_code: int | None
    error: AttemptFailure | None
    response: str

    @property
    def error_code(self) -> str | None:
        return self.error.code if self.error else None


class WebhookTestResult(SendAttempt, frozen=True):
    """The single attempt of a test event."""

    delivery_id: str


class WebhookDelivery(Strict, frozen=True):
    id: str
    event_id: str
    event_type: str
    job_id: str | None
    webhook_id: str | None
    url: str
    status: DeliveryStatus
    created_at: datetime
    next_attempt_at: datetime | None
    finished_at: datetime | None
    attempts: list[SendAttempt]

    @property
    def results(self) -> list[tuple[int | None, str | None]]:
        """Return the status code and the error of each attempt."""
        return [(attempt.status_code, attempt.error_code) for attempt in self.attempts]


class SentBody(Strict, frozen=True):
    delivery_id: str
    body: str


class WebhookDeliveries(Strict, frozen=True):
    items: list[WebhookDelivery]
    next_cursor: str | None


class Duration(Strict, frozen=True):
    p50: int | None
    p95: int | None


class Window(Strict, frozen=True):
    succeeded: int
    failed: int
    failed_attempts: int
    success_rate: float | None
    duration_ms: Duration


class Health(Strict, frozen=True):
    webhook_id: str
    circuit: Literal["closed", "open"]
    failing_since: datetime | None
    pending: int
    oldest_due_at: datetime | None
    counted_since: datetime | None
    last_60_minutes: Window
    last_24_hours: Window


class Healths(Strict, frozen=True):
    items: list[Health]
    next_cursor: str | None


class Recovery(Strict, frozen=True):
    id: str
    webhook_id: str
    since: datetime
    until: datetime
    status: Literal["processing", "completed"]
    recovered: int
    created_at: datetime
