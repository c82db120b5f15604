"""What the API answers about webhooks, keys, statistics and usage."""

from datetime import date, datetime
from typing import Any, Literal

import msgspec

from charonia.model_schemas import (
    Percentiles,
)
from charonia.schemas import ApiObject, AttemptFailure, FieldProblem

Scope = Literal["submit", "read", "admin"]
"""What a key may do."""


class WebhookData(ApiObject, frozen=True, kw_only=True):
    """A subscription. The `secret` for hmac is shown only when it is new, and the `public_key` of ed25519 always."""

    id: str
    url: str
    events: list[str]
    models: list[str] | None
    description: str | None
    headers: dict[str, str | None] | None
    signing: str
    rate_limit: int | None
    ordered: bool = False
    format: str = "charonia"
    status: str
    disabled_at: datetime | None
    disabled_reason: str | None
    created_at: datetime
    secret: str | None = None
    old_secret_until: datetime | None = None
    public_key: str | None = None
    warnings: list[FieldProblem] = msgspec.field(default_factory=list)


class WebhookSecret(ApiObject, frozen=True):
    """The tenant's secret, which signs the webhooks of single jobs."""

    secret: str
    old_secret_until: datetime | None = None


class DeliveryAttempt(ApiObject, frozen=True, kw_only=True):
    """One attempt to deliver. `error` is None for success; `response` is the first bytes of the answer."""

    number: int
    started_at: datetime
    duration_ms: int
    status_code: int | None
    error: AttemptFailure | None
    response: str


class TestedDelivery(DeliveryAttempt, frozen=True, kw_only=True):
    """The attempt that a test made."""

    delivery_id: str


class DeliveryData(ApiObject, frozen=True, kw_only=True):
    """An event on its way to one receiver."""

    id: str
    event_id: str
    event_type: str
    job_id: str | None
    webhook_id: str | None
    url: str
    status: str
    created_at: datetime
    next_attempt_at: datetime | None
    finished_at: datetime | None
    attempts: list[DeliveryAttempt]


class SentBody(msgspec.Struct, frozen=True, kw_only=True):
    """What every attempt of a delivery sends, byte for byte."""

    delivery_id: str
    body: str


class AttemptDuration(msgspec.Struct, frozen=True):
    """How long attempts took that succeeded, in milliseconds: the median, and what 95 % did not exceed."""

    p50: int | None
    p95: int | None


class DeliveryWindow(msgspec.Struct, frozen=True, kw_only=True):
    """How deliveries went within a time. `failed` ones were exhausted. `success_rate` is that of attempts."""

    succeeded: int
    failed: int
    failed_attempts: int
    success_rate: float | None
    duration_ms: AttemptDuration


class WebhookHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How the deliveries of a subscription went. With `counted_since`, only those created since then count."""

    webhook_id: str
    circuit: str
    failing_since: datetime | None
    pending: int
    oldest_due_at: datetime | None
    counted_since: datetime | None
    last_60_minutes: DeliveryWindow
    last_24_hours: DeliveryWindow


class Recovery(ApiObject, frozen=True, kw_only=True):
    """The progress of a recovery."""

    id: str
    webhook_id: str
    since: datetime
    until: datetime
    status: str
    recovered: int
    created_at: datetime


class KeyData(ApiObject, frozen=True, kw_only=True):
    """An API key. `key` is the key itself, shown only when it is made. `rate_limit` is in requests a second.

    `made_by` is the id of the key that made it, with which it is revoked.
    """

    id: str
    name: str
    scopes: list[str]
    models: list[str] | None
    rate_limit: int | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    made_by: str | None = None
    key: str | None = None


class JobWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that ended in the last `seconds`. Times are those of jobs that succeeded.

    `hits` took the result of another job at their submit, and `joins` after they waited for it.
    """

    seconds: float
    ended: int
    failed: int
    hits: int = 0
    joins: int = 0
    ended_per_minute: float
    failed_per_minute: float
    queue_ms: Percentiles
    inference_ms: Percentiles


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """Your jobs of one model and priority. `scheduled` ones wait for a time, and are not among those `waiting`."""

    model: str
    priority: str
    waiting: int
    scheduled: int
    running: int
    oldest_waiting_at: datetime | None
    last_5_minutes: JobWindow
    last_60_minutes: JobWindow


class Stats(ApiObject, frozen=True):
    """Your jobs in numbers, as they were `at` a time."""

    at: datetime
    items: list[QueueStats]


class MinuteStats(msgspec.Struct, frozen=True, kw_only=True):
    """Your jobs in the minute that began `at` a time: ends within it, and what waited and ran at its end."""

    at: datetime
    ended: int
    failed: int
    waiting: int
    running: int


class HourStats(msgspec.Struct, frozen=True):
    """Your jobs of the last hour by minute, oldest first, as they were `at` a time. The last minute is not over."""

    at: datetime
    items: list[MinuteStats]


class UsageData(ApiObject, frozen=True, kw_only=True):
    """What you used of one model on one day (UTC). `jobs` counts the ended jobs by status.

    Those that took the result of another job count as `reused`, not as `succeeded`.

    The tokens are those that a language model tells of. Others have 0.
    """

    day: date
    model: str
    jobs: dict[str, int]
    inference_seconds: float
    bytes_in: int
    bytes_out: int
    prompt_tokens: int = 0
    completion_tokens: int = 0


class AuditEntry(ApiObject, frozen=True, kw_only=True):
    """Who changed what, and when."""

    id: str
    at: datetime
    actor: str
    action: str
    target: str
    changes: dict[str, Any]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a job's life. It belongs to the last span before it of less `depth`. Times are in milliseconds."""

    name: str
    service: str
    depth: int
    at_ms: float
    took_ms: float | None
    started_at: datetime
    finished_at: datetime | None
    failed: bool
    detail: str | None


class Trace(ApiObject, frozen=True, kw_only=True):
    """The trace of a job. `truncated` tells that the oldest attempts or deliveries are left out."""

    job_id: str
    trace_id: str
    status: str
    spans: list[Span]
    truncated: bool
