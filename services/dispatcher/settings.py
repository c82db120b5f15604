"""The dispatcher's settings."""

import secrets
from typing import Annotated

import msgspec
from msgspec import Meta

from common.settings import Seconds, Settings, TraceUrl

MAX_INPUTS = 128 * 1024 * 1024


def name_worker() -> str:
    """Return a unique name. Tenants see it, so it has neither the host nor the process id."""
    return f"worker-{secrets.token_hex(6)}"


class DispatcherSettings(Settings, frozen=True, kw_only=True):
    triton_url: Annotated[str, Meta(pattern=r"^(\[[^\]]+\]|[^/:\s]+):[0-9]+$")]
    """The gRPC address of Triton, as `host:port`."""
    triton_tls: bool = False
    """Whether to call Triton with TLS."""
    triton_tls_ca: str = ""
    """A PEM file with the certificates that may sign Triton's. Without it, public authorities may, as gRPC has them."""
    triton_tls_certificate: str = ""
    """A PEM file with the dispatcher's own certificate, if Triton wants one."""
    triton_tls_key: str = ""
    """A PEM file with the key of that certificate, without a password."""
    triton_headers: tuple[str, ...] = ()
    """Headers of each call to Triton, such as `authorization=Bearer token`. They are secret, so use TLS."""
    url_keys: tuple[str, ...]
    """The same keys as the gateway has. The first signs the URLs of outputs."""
    public_url: str = ""
    """The prefix of the paths in `urls` of a job."""
    trace_url: TraceUrl = ""
    """Where to look at traces: a URL with `{trace_id}` in it, or the address of Jaeger."""
    models: tuple[str, ...] = ("*",)
    """Which of Triton's models this dispatcher runs: patterns such as `llm-*,whisper`."""
    lease: Annotated[float, Meta(ge=1, le=86_400)] = 30.0
    """Seconds a claim lasts without a heartbeat."""
    catalogue_interval: Seconds = 2.0
    """Seconds between reads of Triton's models."""
    model_grace: Annotated[float, Meta(gt=0)] = 86_400.0
    """Seconds without any Triton that has a model. Then it leaves the catalogue, and its queued jobs fail."""
    sweep_interval: Seconds = 0.5
    """Seconds between searches for due, expired and abandoned jobs."""
    retention: Annotated[float, Meta(gt=0)] = 30 * 86_400.0
    """Seconds an ended job is kept, with its outputs, events and deliveries."""
    audit_retention: Annotated[float, Meta(gt=0)] = 365 * 86_400.0
    """Seconds an entry of the audit log is kept."""
    tenant_metrics: bool = False
    """Whether to count jobs, seconds and bytes by tenant in metrics. Each tenant and model adds seven series."""
    slots: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Concurrent inferences of one model. 0 means instances × largest batch × 2, and up to twice that if it is fast."""
    max_inputs: Annotated[int, Meta(ge=1024)] = MAX_INPUTS
    """Bytes of the inputs of running jobs. One queue gets three quarters at most, but one job of it always runs."""
    max_message: Annotated[int, Meta(ge=1024, le=2**31 - 1)] = 64 * 1024 * 1024
    """Raw bytes of one request to Triton, or of all responses to one. More fails the job as `too_large`."""
    max_outputs: Annotated[int, Meta(ge=1024, le=128 * 1024 * 1024)] = 64 * 1024 * 1024
    """Bytes of a job's outputs as JSON, which is what is stored. More fails the job as `too_large`. JSON takes up to
    eight times the raw bytes of FP16. PostgreSQL must be able to store this much within 15 s."""
    worker: str = msgspec.field(default_factory=name_worker)
    """The name of this process in the rows of its jobs, which tenants see. Each process has its own; by default it is
    random, and the log has it with host and process id."""
