"""The dispatcher's settings."""

from typing import Annotated

import msgspec
from msgspec import Meta

from common.processes import name_process
from common.settings import Seconds, Settings, TraceUrl


class DispatcherSettings(Settings, frozen=True, kw_only=True):
    triton_url: Annotated[str, Meta(pattern=r"^(\[[^\]]+\]|[^/:\s]+):[0-9]+$")]  # host:port of Triton's gRPC
    encryption_keys: tuple[str, ...]  # the first signs the URLs of outputs
    public_url: str = ""
    trace_url: TraceUrl = ""
    models: tuple[str, ...] = ("*",)  # patterns of the names of those it runs, of all that its Triton has
    lease: Annotated[float, Meta(ge=1, le=86_400)] = 30.0  # seconds a claim holds without a heartbeat
    catalogue_interval: Seconds = 2.0  # seconds between looks at Triton's models
    model_grace: Annotated[float, Meta(gt=0)] = 86_400.0  # seconds without a model until its queued jobs fail
    sweep_interval: Seconds = 0.5  # seconds between looks for due, expired and abandoned jobs
    retention: Annotated[float, Meta(gt=0)] = 30 * 86_400.0  # seconds an ended job is kept, with all that belongs to it
    slots: Annotated[int, Meta(ge=0, le=10_000)] = 0  # inferences of one model at a time; 0: what Triton can use
    max_message: Annotated[int, Meta(ge=1024, le=2**31 - 1)] = (
        64 * 1024 * 1024
    )  # bytes of one request to, or response from, Triton
    worker: str = msgspec.field(default_factory=name_process)
