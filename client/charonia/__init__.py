"""Charonia's client: asynchronous inference for NVIDIA Triton.

`Charonia` and `AsyncCharonia` have the same methods. `verify` checks a webhook.
"""

from charonia._async.client import AsyncCharonia
from charonia._async.jobs import AsyncJob
from charonia._sync.client import Charonia
from charonia._sync.jobs import Job
from charonia.errors import (
    APIError,
    CharoniaError,
    ConfigurationError,
    Conflict,
    ConnectionFailed,
    DeadlineExceeded,
    Forbidden,
    InvalidInput,
    InvalidRequest,
    InvalidResponse,
    InvalidSignature,
    JobCanceled,
    JobError,
    JobExpired,
    JobFailed,
    NotFound,
    RateLimited,
    ResumeError,
    ServerError,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from charonia.events import (
    BatchEvent,
    DeliveryEvent,
    Event,
    JobEvent,
    ProgressEvent,
    UnknownEvent,
    WebhookEvent,
)
from charonia.references import FileId, Url
from charonia.requests import Options, OutputTarget, Retry, Webhook
from charonia.results import Done, OutputFile, Outputs, Part, Result
from charonia.schemas import FieldError
from charonia.version import VERSION
from charonia.webhook_signatures import verify

__version__ = VERSION

__all__ = [
    "APIError",
    "AsyncCharonia",
    "AsyncJob",
    "BatchEvent",
    "Charonia",
    "CharoniaError",
    "ConfigurationError",
    "Conflict",
    "ConnectionFailed",
    "DeadlineExceeded",
    "DeliveryEvent",
    "Done",
    "Event",
    "FieldError",
    "FileId",
    "Forbidden",
    "InvalidInput",
    "InvalidRequest",
    "InvalidResponse",
    "InvalidSignature",
    "Job",
    "JobCanceled",
    "JobError",
    "JobEvent",
    "JobExpired",
    "JobFailed",
    "NotFound",
    "Options",
    "OutputFile",
    "OutputTarget",
    "Outputs",
    "Part",
    "ProgressEvent",
    "RateLimited",
    "Result",
    "ResumeError",
    "Retry",
    "ServerError",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "UnknownEvent",
    "Url",
    "Webhook",
    "WebhookEvent",
    "verify",
]
