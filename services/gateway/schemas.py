"""What clients send, and what is answered besides the Job. Unknown fields are refused, so a typo never passes."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from common.batch_view import BatchView
from common.delivery_view import DeliveryAttempt, DeliveryView
from common.job_view import JobView, Object, Outputs, Time
from common.jobs import Priority
from common.tensors import Datatype
from services.gateway.errors import FieldError

CallbackEvent = Literal["job.started", "job.succeeded", "job.failed", "job.canceled", "job.expired"]
Url = Annotated[str, Meta(min_length=1, max_length=2048, description="https, to a public address")]
# PostgreSQL's text has no NUL.
Text = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00]*$")]
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]
EventPattern = Annotated[
    str, Meta(max_length=100, description="an event type; `*` stands for one word, `job.*` for all that begin so")
]


RateLimit = Annotated[int, Meta(ge=1, le=10_000, description="attempts a second")]


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which failed jobs; what is left out is open."""

    model: Name | None = None
    error: Name | None = None
    created_after: Annotated[datetime, Meta(tz=True)] | None = None
    created_before: Annotated[datetime, Meta(tz=True)] | None = None


class InputTensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor as in the Open Inference Protocol; data row-major, flat or nested."""

    name: str
    shape: list[Annotated[int, Meta(ge=0, le=2**63 - 1)]]
    datatype: Datatype
    data: Any  # of a request under /v2 also bytes, as they came


class Callback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to send this job's events; without `events`, those that end it."""

    url: Url
    events: Annotated[list[CallbackEvent], Meta(min_length=1, max_length=10)] = msgspec.field(
        default_factory=lambda: ["job.succeeded", "job.failed", "job.canceled", "job.expired"]
    )


class RetryRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exponential backoff with full jitter; delays in seconds."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    initial_delay: Annotated[float, Meta(ge=0, le=86_400)] = 1.0
    max_delay: Annotated[float, Meta(ge=0, le=604_800, description="300, or initial_delay if that is more")] | None = (
        None
    )

    @property
    def longest(self) -> float:
        return max(300.0, self.initial_delay) if self.max_delay is None else self.max_delay


class SubmitJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: Name
    version: Name | None = None
    inputs: Annotated[
        dict[str, Any] | list[InputTensor],
        Meta(description='by name: nested lists or {"base64"}; or a list as in the Open Inference Protocol'),
    ]
    parameters: dict[str, bool | int | float | str] | None = None
    priority: Priority = Priority.NORMAL
    webhook: Callback | None = None
    metadata: Annotated[dict[str, Any], Meta(description="at most 16 KiB; returned and delivered")] | None = None
    run_at: Annotated[datetime, Meta(tz=True, description="not before; RFC 3339")] | None = None
    expires_in: Annotated[float, Meta(gt=0, le=31_536_000, description="seconds it may wait")] | None = None
    timeout: Annotated[float, Meta(gt=0, le=604_800, description="seconds one attempt may run")] = 600.0
    retry: RetryRule = RetryRule()
    fallback_model: Name | None = None


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


class ChangeWebhook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays as it is; null empties a field."""

    url: Url | msgspec.UnsetType = msgspec.UNSET
    events: Annotated[list[EventPattern], Meta(min_length=1, max_length=50)] | msgspec.UnsetType = msgspec.UNSET
    models: Annotated[list[Name], Meta(min_length=1, max_length=100)] | msgspec.UnsetType | None = msgspec.UNSET
    description: Text | msgspec.UnsetType | None = msgspec.UNSET
    headers: Annotated[dict[str, str], Meta(max_length=20)] | msgspec.UnsetType | None = msgspec.UNSET
    rate_limit: RateLimit | msgspec.UnsetType | None = msgspec.UNSET


class WebhookView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subscription. `secret` (for ed25519 the public key) is shown once, when it is made; header values never.
    `disabled_reason` is `gone` after a 410, `failing` after days without a success."""

    id: str
    url: str
    events: list[str]
    models: list[str] | None
    description: str | None
    headers: dict[str, str] | None
    signing: Literal["hmac", "ed25519"]
    rate_limit: int | None
    status: Literal["enabled", "disabled"]
    disabled_at: Time | None
    disabled_reason: Literal["gone", "failing"] | None
    created_at: Time
    secret: str | msgspec.UnsetType = msgspec.UNSET
    old_secret_until: Time | msgspec.UnsetType | None = msgspec.UNSET
    public_key: str | msgspec.UnsetType = msgspec.UNSET


class WebhookPage(msgspec.Struct, frozen=True):
    items: list[WebhookView]
    next_cursor: str | None


class SecretView(msgspec.Struct, frozen=True):
    """The tenant's secret, which signs callbacks given per job; after a rotation, how long the old one signs too."""

    secret: str
    old_secret_until: Time | msgspec.UnsetType | None = msgspec.UNSET


class Rotate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For how many seconds the old secret signs too; 0 ends it, and any older one, at once."""

    grace_period: Annotated[float, Meta(ge=0, le=2_592_000)] = 86_400.0


class Recover(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The time in which deliveries were created; until now where no end is given."""

    since: Annotated[datetime, Meta(tz=True)]
    until: Annotated[datetime, Meta(tz=True)] | None = None


class RecoveryView(msgspec.Struct, frozen=True, kw_only=True):
    """`recovered` counts the deliveries that were put back on their way so far."""

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
    """The body of a `webhook.test`."""

    type: str
    timestamp: Time
    data: TestData


class TestView(DeliveryAttempt, frozen=True, kw_only=True):
    """The attempt that a test made."""

    delivery_id: str


class DeliveryPage(msgspec.Struct, frozen=True):
    items: list[DeliveryView]
    next_cursor: str | None


class TensorView(msgspec.Struct, frozen=True):
    """-1 in the shape stands for any size; a batch dimension is included."""

    name: str
    datatype: Datatype
    shape: list[int]
    optional: bool


class VersionView(msgspec.Struct, frozen=True):
    version: str
    ready: bool


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """A model, as its newest version declares it; `queue` counts waiting jobs by priority."""

    name: str
    ready: bool
    streaming: bool
    max_batch_size: int
    versions: list[VersionView]
    inputs: list[TensorView]
    outputs: list[TensorView]
    queue: dict[Priority, int]


class ModelList(msgspec.Struct, frozen=True):
    items: list[ModelView]
    next_cursor: str | None = None


class RetryJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another model, where the first is what failed."""

    model: Name | None = None


class OutputsView(msgspec.Struct, frozen=True):
    id: str
    outputs: Outputs


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """`status` is succeeded, failed, canceled, or returned: then it used up none of the job's attempts."""

    attempt: int
    status: str
    model: str
    worker: str
    started_at: Time
    finished_at: Time
    duration_ms: int
    error_code: str | None
    error_message: str | None


class AttemptList(msgspec.Struct, frozen=True):
    items: list[AttemptView]


class JobPage(msgspec.Struct, frozen=True):
    """Jobs without their outputs; `webhook_status` is not looked up here."""

    items: list[JobView]
    next_cursor: str | None


class ItemError(msgspec.Struct, frozen=True):
    """Why an item of a batch is no job: its number from 0, the `type` and the `errors` that it would have had alone."""

    index: int
    type: str
    detail: str
    errors: list[FieldError]


class BatchAccepted(BatchView, frozen=True, kw_only=True):
    """The batch, and the items that are no jobs of it."""

    errors: list[ItemError]


class Replay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `ids`, or the newest `limit` that `filter` finds; on another model where one is given."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=1000)] | None = None
    filter: DeadFilter | None = None
    model: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Replayed(msgspec.Struct, frozen=True):
    """`skipped` are no failed jobs of yours, or the model does not take their inputs."""

    replayed: list[str]
    skipped: list[str]
    remaining: bool


class EventItem(msgspec.Struct, frozen=True):
    """An event of a job: at its end `data` is the Job as its webhook has it, before what is new."""

    id: str
    type: str
    timestamp: Time
    data: Object


class EventPage(msgspec.Struct, frozen=True):
    items: list[EventItem]
    next_cursor: str | None
