"""The gateway's settings."""

from typing import Annotated

from msgspec import Meta

from common.errors import SettingsError
from common.settings import INLINE_SIZE, InlineSize, PublicUrl, Seconds, Settings, StoreUrl, TraceUrl
from common.tensors import MAX_INPUT_BYTES
from services.gateway.auth.rate_limits import MAX_RATE
from services.gateway.jobs.queue_limits.limits import MAX_LIMIT

Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT)]
Endpoint = Annotated[str, Meta(pattern=r"^(https?://[^\s/?#]+)?$")]


class GatewaySettings(Settings, frozen=True, kw_only=True):
    encryption_keys: tuple[str, ...]
    """Fernet keys: 32 bytes in URL-safe base64. The first encrypts; all decrypt."""
    url_keys: tuple[str, ...]
    """Keys of at least 32 random characters, which only dispatchers have too. They verify URLs of outputs and files."""
    store_url: StoreUrl
    """The object store: `file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`."""
    store_public_endpoint: Endpoint = ""
    """Where clients reach an S3 store, if that is another address than `AWS_ENDPOINT_URL`. Presigned URLs begin so."""
    store_redirects: bool = True
    """Whether the object store in the cloud sends files to clients itself. Then they must reach its address."""
    bootstrap_key: Annotated[str, Meta(pattern=r"^(ch_dev|[!-~]{16,256})?\Z")] = ""
    """An API key of the tenant `default`, created at startup: at least 16 characters of ASCII, without spaces."""
    public_url: PublicUrl = ""
    """The prefix of the paths in `urls` of a job, such as `https://api.example.com`. It has no slash at its end."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may call the API from a browser, such as `https://app.example.com`. `*` is refused."""
    trace_url: TraceUrl = ""
    """Where to look at traces: a URL with `{trace_id}` in it, or the address of Jaeger."""
    max_body_bytes: Annotated[int, Meta(ge=1024, le=512 * 1024 * 1024)] = 16 * 1024 * 1024
    """Bytes of one job's request body. Other calls take 256 KiB at most. A larger body gets 413."""
    max_bodies_bytes: Annotated[int, Meta(ge=1024)] = 128 * 1024 * 1024
    """Bytes of all request bodies in memory at a time, of which a tenant gets three quarters at most. More gets 503."""
    max_responses_bytes: Annotated[int, Meta(ge=1024)] = 128 * 1024 * 1024
    """Bytes of outputs over 256 KiB that all responses hold at a time. One tenant has half of it at most, and two leave
    a third. Without room within 10 s, a request gets 503 with `Retry-After`. While one waits, clients that read less
    than 1 MiB a second for 5 s lose their connection. A response takes up to three times its bytes for a moment."""
    max_batch_bytes: Annotated[int, Meta(ge=1024, le=512 * 1024 * 1024)] = 64 * 1024 * 1024
    """Bytes of a batch sent as JSON lines. `CHARONIA_MAX_BODY_BYTES` limits each line, and a batch sent as a list."""
    metrics_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """The port of `/metrics`, if only some may read it. 0: that of the API, to whoever reaches it."""
    shutdown_delay: Annotated[float, Meta(ge=0, le=600)] = 5.0
    """Seconds of `CHARONIA_SHUTDOWN_GRACE` in which the gateway is not ready but still serves, so that load balancers
    notice."""
    infer_wait: Seconds = 300.0
    """Seconds a call of the Open Inference Protocol, or of OpenAI's API, waits for its job before it gets 504."""
    heartbeat: Seconds = 15.0
    """Seconds between the comments that keep an idle event stream open."""
    send_timeout: Seconds = 30.0
    """Seconds after which a connection is closed if the client reads nothing."""
    delivery_timeout: Annotated[float, Meta(gt=0, le=300)] = 15.0
    """Seconds one delivery attempt may take. Set the notifiers to the same value; a webhook test waits 15 s longer."""
    database_pool: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Connections to PostgreSQL at most."""
    rate_limit: Annotated[int, Meta(ge=0, le=MAX_RATE)] = 0
    """Requests a second of a key without a limit of its own. 0 means unlimited."""
    max_queued: Limit = 1_000_000
    """Jobs that a tenant without a limit of its own may have queued. More get 429 with `Retry-After`."""
    max_queued_per_model: Limit = 2_000_000
    """Jobs of all tenants that may be queued for one model."""
    max_queued_bytes: Annotated[int, Meta(ge=1024)] = 16 * 1024 * 1024 * 1024
    """Bytes of inputs, with those in files, that the queued jobs of a tenant may have together. More get 429 with
    `Retry-After`."""
    max_tensor_bytes: Annotated[int, Meta(ge=1024, le=MAX_INPUT_BYTES)] = 512 * 1024 * 1024
    """Bytes of one input from a file or URL. A dispatcher holds them while the job runs, and gRPC copies them once."""
    inline_input_bytes: InlineSize = INLINE_SIZE
    """Bytes of a job's inline inputs that stay in PostgreSQL. The largest inputs beyond go to the object store."""
    max_file_bytes: Annotated[int, Meta(ge=1024, le=64 * 1024**3)] = 5 * 1024**3
    """Bytes of one file."""
    max_stored_bytes: Annotated[int, Meta(ge=1024)] = 100 * 1024**3
    """Bytes of all files of a tenant, with the large inputs and outputs of its jobs. More get 429."""
    max_files: Annotated[int, Meta(ge=1, le=1_000_000)] = 100_000
    """Files of a tenant. More get 429."""
    file_retention: Seconds = 86_400.0
    """Seconds for which a file is kept by default, if `CHARONIA_MAX_FILE_RETENTION` is not less."""
    max_file_retention: Annotated[float, Meta(gt=0, le=31_536_000)] = 604_800.0
    """Seconds for which a client may let a file be kept."""
    max_webhooks_per_tenant: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Subscriptions that a tenant may have. One more gets 409. Each event is sent to every matching one."""
    webhook_networks: tuple[str, ...] = ()
    """Networks that webhooks may go to although they are not public, such as `10.1.0.0/16`. Set the notifiers to the
    same."""
    webhook_http: bool = False
    """Whether webhooks may go to plain http. Set the notifiers to the same."""
    input_networks: tuple[str, ...] = ()
    """Networks that inputs by URL may use although they are not public. Everyone who may submit can then read what
    answers there. Set the dispatchers to the same."""
    input_http: bool = False
    """Whether inputs by URL may come from plain http. Set the dispatchers to the same."""

    def __post_init__(self) -> None:
        if self.metrics_port == self.port:
            raise SettingsError(
                "CHARONIA_METRICS_PORT is wrong: it is that of the API; give another one, or 0 to share it"
            )

    @property
    def default_file_retention(self) -> float:
        """Seconds for which a file is kept whose upload does not say it."""
        return min(self.file_retention, self.max_file_retention)
