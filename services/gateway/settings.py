"""The gateway's settings."""

from typing import Annotated

from msgspec import Meta

from common.settings import Seconds, Settings, TraceUrl
from services.gateway.queues import MAX_LIMIT
from services.gateway.rates import MAX_RATE

Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT)]


class GatewaySettings(Settings, frozen=True, kw_only=True):
    encryption_keys: tuple[str, ...]  # seal webhook secrets; the first seals, all open
    bootstrap_key: str = ""  # an API key of the tenant "default", made at the start
    public_url: str = ""  # goes before the paths in a job's urls
    trace_url: TraceUrl = ""  # such as http://localhost:16686/trace/{trace_id}
    max_body: Annotated[int, Meta(ge=1024, le=512 * 1024 * 1024)] = 16 * 1024 * 1024  # bytes of a request's body
    max_bodies: Annotated[int, Meta(ge=1024)] = 128 * 1024 * 1024  # bytes of all bodies being worked on
    max_batch: Annotated[int, Meta(ge=1024, le=512 * 1024 * 1024)] = 64 * 1024 * 1024  # bytes of a batch's body
    # Seconds of the grace in which it still takes requests, not ready, so that load balancers take it out.
    drain: Annotated[float, Meta(ge=0, le=600)] = 5.0
    infer_wait: Seconds = 300.0  # how long a caller of the Open Inference Protocol waits for its job
    heartbeat: Seconds = 15.0  # between signs of life to whoever listens while nothing happens
    send_timeout: Seconds = 30.0  # how long a connection may take nothing of what is sent to it
    # As the notifiers have it: a test waits for an attempt.
    delivery_timeout: Annotated[float, Meta(gt=0, le=300)] = 15.0
    database_pool: Annotated[int, Meta(ge=1, le=1000)] = 10
    rate_limit: Annotated[int, Meta(ge=0, le=MAX_RATE)] = (
        0  # requests a second of a key without a limit of its own; 0: any
    )
    max_queued: Limit = 1_000_000  # jobs of a tenant without a limit of its own that may wait
    max_queued_per_model: Limit = 2_000_000
    # Callbacks and subscriptions: https to public addresses only, unless these allow more.
    allowed_networks: tuple[str, ...] = ()
    allow_http: bool = False
