"""The dispatcher's settings."""

import secrets
from typing import Annotated

import msgspec
from msgspec import Meta

from common.byte_sizes import EXPECTED, parse_bytes
from common.errors import SettingsError
from common.settings import (
    INLINE_SIZE,
    EgressProxy,
    InlineSize,
    Period,
    PublicUrl,
    Seconds,
    Settings,
    StoreUrl,
    TraceUrl,
)
from common.tensors import MAX_INPUT_BYTES

MAX_INPUTS = 128 * 1024 * 1024
MAX_FETCHES = 64


def name_worker() -> str:
    """Return a unique name. Tenants see it, so it has neither the host nor the process id."""
    return f"worker-{secrets.token_hex(6)}"


class MaintenanceSettings(Settings, frozen=True, kw_only=True):
    """The settings of the work that one process does for all dispatchers. They are the same for all of them."""

    url_keys: tuple[str, ...]
    """The same keys as the gateway has. The first signs the URLs of outputs and files."""
    store_url: StoreUrl
    """The same object store as the gateway has."""
    public_url: PublicUrl = ""
    """The prefix of the paths in `urls` of a job, such as `https://api.example.com`. It has no slash at its end."""
    trace_url: TraceUrl = ""
    """Where to look at traces: a URL with `{trace_id}` in it, or the address of Jaeger."""
    lease: Annotated[float, Meta(ge=1, le=86_400)] = 30.0
    """Seconds a claim lasts unless its dispatcher renews it."""
    sweep_interval: Seconds = 0.5
    """Seconds between searches for due, expired and abandoned jobs."""
    retention: Period = 30 * 86_400.0
    """Seconds an ended job is kept, with its outputs, events and deliveries. It may be a sixth longer."""
    audit_retention: Period = 365 * 86_400.0
    """Seconds an entry of the audit log is kept."""
    tenant_metrics: bool = False
    """Whether to count jobs, seconds and bytes by tenant in metrics. Each tenant and model adds ten series."""


class DispatcherSettings(MaintenanceSettings, frozen=True, kw_only=True):
    """The settings of a dispatcher, which may do that work too."""

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
    triton_repository_key: Annotated[str, Meta(pattern=r"^([!-~]{16,256})?\Z")] = ""
    """The value of the header `charonia-repository-key`, to which Triton restricts its model repository: at least 16
    characters of ASCII, without spaces. Who has it can run code in Triton. Empty if Triton restricts nothing."""
    gateway_url: Annotated[str, Meta(pattern=r"^(https?://[^\s?#]+)?$")] = ""
    """A gateway's URL as Triton reaches it, such as `http://gateway:8080`. Models that take a reference read files
    there, unless the object store is in the cloud. Default: `CHARONIA_PUBLIC_URL`."""
    models: tuple[str, ...] = ("*",)
    """Which of Triton's models this dispatcher runs: patterns such as `llm-*,whisper`."""
    catalogue_interval: Seconds = 2.0
    """Seconds between reads of Triton's models."""
    model_grace: Period = 86_400.0
    """Seconds without any Triton that has a model. Then it leaves the catalogue, and its queued jobs fail."""
    model_memory: str = ""
    """Memory of Triton for models, such as `40 GiB` or a number of bytes. The queue then decides which models Triton
    holds: it loads those that jobs wait for, and unloads others to make room. Triton needs
    `--model-control-mode=explicit`. Empty: all models stay loaded. Set the same for all dispatchers of a Triton."""
    model_max_wait: Seconds = 60.0
    """Seconds that a job waits for its model at most while jobs of other models start, if `CHARONIA_MODEL_MEMORY` is
    set. The time of the load comes to it."""
    model_idle: Annotated[float, Meta(ge=0, le=3_153_600_000)] = 0.0
    """Seconds without a job after which a model is unloaded, if `CHARONIA_MODEL_MEMORY` is set. 0: it stays loaded
    until its room is needed."""
    triton_metrics_url: Annotated[str, Meta(pattern=r"^(https?://[^\s?#]+)?$")] = ""
    """Triton's metrics, such as `http://triton:8002/metrics`. They say how much memory a model takes that does not
    declare `charonia.memory`. Without them, such a model counts as the largest one."""
    slots: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Concurrent inferences of one model. 0 means instances × largest batch × 2, and up to twice that if it is fast."""
    max_inputs_bytes: Annotated[int, Meta(ge=1024)] = MAX_INPUTS
    """Bytes of the inputs of running jobs. One queue gets three quarters at most, but one job of it always runs."""
    max_tensor_bytes: Annotated[int, Meta(ge=1024, le=MAX_INPUT_BYTES)] = 512 * 1024 * 1024
    """Bytes of one input, the same as the gateway has. It limits what is fetched from URLs."""
    max_fetches: Annotated[int, Meta(ge=1, le=10_000)] = MAX_FETCHES
    """Jobs that fetch inputs from URLs at a time. One tenant gets three quarters at most, but always a first one."""
    fetch_timeout: Seconds = 60.0
    """Seconds to fetch all inputs of a job from URLs, if its `timeout` is not shorter."""
    fetch_folder: str = "/var/tmp"  # noqa: S108 -- the files have no name
    """A folder on a disk for fetched inputs. They stay there until there is memory for them."""
    max_fetched_bytes: Annotated[int, Meta(ge=2048)] = 4 * 1024**3
    """Bytes in that folder, at least twice `CHARONIA_MAX_TENSOR_BYTES`. One tenant gets three quarters at most."""
    input_networks: tuple[str, ...] = ()
    """Networks that inputs by URL may use although they are not public, such as `10.1.0.0/16`. Everyone who may submit
    can then read what answers there. Set the gateway to the same."""
    input_http: bool = False
    """Whether inputs by URL may come from plain http. Set the gateway to the same."""
    egress_proxy: EgressProxy = ""
    """A proxy to fetch inputs from URLs: `http://[user:password@]host:port`. It resolves names itself, so let it refuse
    private networks."""
    max_triton_response_bytes: Annotated[int, Meta(ge=1024, le=2**31 - 1)] = 64 * 1024 * 1024
    """Raw bytes of all of Triton's responses to one request. More fails the job as `too_large`."""
    inline_output_bytes: InlineSize = INLINE_SIZE
    """Raw bytes of an output that a job shows as JSON. A larger one becomes a file. Once a job shows four times that,
    outputs over an eighth of it become files too."""
    max_job_outputs_bytes: Annotated[int, Meta(ge=1024, le=64 * 1024 * 1024)] = 16 * 1024 * 1024
    """Bytes of a job's outputs as JSON, without those in files. More fails the job as `too_large`, such as a stream of
    very many small responses. PostgreSQL must be able to store this much within 15 s."""
    pod_name: Annotated[str, Meta(pattern=r"^([a-z0-9][a-z0-9.-]*)?$")] = ""
    """The name of this dispatcher's pod, so that Kubernetes learns how many jobs it runs. Scaling in then removes idle
    pods first. The service account needs the right to patch pods."""
    service_account: str = "/var/run/secrets/kubernetes.io/serviceaccount"
    """The folder with the token, the certificates and the namespace of the pod's service account."""
    worker: str = msgspec.field(default_factory=name_worker)
    """The name of this process in the rows of its jobs, which tenants see. Each process has its own; by default it is
    random, and the log has it with host and process id."""

    @property
    def budget(self) -> int | None:
        """The bytes of Triton's memory for models. None: the queue does not decide what Triton holds."""
        return parse_bytes(self.model_memory) if self.model_memory else None

    def __post_init__(self) -> None:
        if self.model_memory and self.budget is None:
            raise SettingsError(f"CHARONIA_MODEL_MEMORY is wrong: expected {EXPECTED}")
        least = 2 * self.max_tensor_bytes
        if self.max_fetched_bytes < least:
            raise SettingsError(
                f"CHARONIA_MAX_FETCHED_BYTES is wrong: expected at least twice CHARONIA_MAX_TENSOR_BYTES, {least}"
            )
