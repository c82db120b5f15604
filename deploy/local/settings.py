"""The variables of the local stack."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from deploy.local.errors import InvalidSetting
from deploy.local.installation import DATA, INSTALLATION, PLACE, command_for
from deploy.local.installation import ROOT as ROOT
from deploy.local.processes.ports import first_free_block, free_block

INSTANCES = 16  # of a service, at most: the default ports must not overlap
PRIVATE_INSTANCES = 4  # the same, for a stack on free ports
PASSED = ("CHARONIA_", "OTEL_", "AWS_", "AZURE_", "GOOGLE_")  # the last three have the object store's credentials
LANGUAGE_MODELS = ROOT / "deploy" / "language_models"
PATHS = ("stack_dir", "triton_venv", "model_repository")
OPTIONAL_PATHS = ("models", "models_python")
COUNTS = ("gateways", "dispatchers", "notifiers")
SERVICE_PORTS = ("gateway_port", "dispatcher_port", "notifier_port")
PORTS = (
    *SERVICE_PORTS,
    "postgres_port",
    "rabbitmq_port",
    "rabbitmq_dist_port",
    "rabbitmq_epmd_port",
    "triton_http_port",
    "triton_grpc_port",
    "triton_metrics_port",
)


@dataclass(frozen=True)
class Settings:
    """Paths, loopback ports, and the number of instances of each service. Instance i listens on its port + i."""

    stack_dir: Path = DATA / "stack"
    """The stack's data. A second stack needs another folder and other ports."""
    triton_venv: Path = INSTALLATION / "triton" if INSTALLATION else DATA / "triton-venv"
    """Where Triton and the packages of its models are installed."""
    model_repository: Path = ROOT / "deploy" / "models"
    """Triton's model repository: the demo's models."""
    models: Path | None = None
    """A folder of your own models. Triton serves them beside those of `MODEL_REPOSITORY`."""
    models_python: Path | None = None
    """A Python that runs the models in place of Triton's own, such as one that has PyTorch."""
    language_models: int = 0
    """1: Triton also serves `chat` and `embed`, real models that need no GPU. Their weights are downloaded once."""
    port_base: int = 0
    """For a second stack: all its ports are the first free ones from here on, and it has a data folder of its own."""
    gateways: int = 1
    """Instances of the gateway. Each takes the next port; so do dispatchers and notifiers."""
    dispatchers: int = 1
    """Instances of the dispatcher."""
    notifiers: int = 1
    """Instances of the notifier."""
    gateway_port: int = 8080
    """Port of the first gateway."""
    dispatcher_port: int = 8100
    """Port of the first dispatcher."""
    notifier_port: int = 8200
    """Port of the first notifier."""
    postgres_port: int = 5433
    """Port of PostgreSQL."""
    rabbitmq_port: int = 5673
    """Port of RabbitMQ. The next two are the defaults of its other ports."""
    rabbitmq_dist_port: int = 5674
    """Port between RabbitMQ and its command line."""
    rabbitmq_epmd_port: int = 5675
    """Port of Erlang's port mapper."""
    triton_http_port: int = 8000
    """Port of Triton's HTTP."""
    triton_grpc_port: int = 8001
    """Port of Triton's gRPC."""
    triton_metrics_port: int = 8002
    """Port of Triton's metrics."""
    durable: bool = True
    """Whether PostgreSQL survives a crash of the machine; tests do not need that."""
    postgres_options: Mapping[str, str] = field(default_factory=dict)
    """Options of PostgreSQL; they win over those of the stack. Benchmarks have it count more."""
    model_control: Literal["none", "explicit", "poll"] = "explicit"
    """How Triton loads models. Only in `explicit` can they be loaded again."""
    watch: bool = False
    """Whether services start again when their code changes: `make up WATCH=1`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for the services, such as CHARONIA_*; they win over those of the stack."""

    @classmethod
    def load(cls, environ: Mapping[str, str]) -> "Settings":
        """Read the variables STACK_DIR, GATEWAY_PORT, …; raise InvalidSetting, which names the invalid one.

        Raises PortTaken if there are no free ports from PORT_BASE on.
        """
        base = _number(environ, "port_base", 0, 0, 65535)
        defaults = cls._from_base(base) if base else cls()
        read: dict[str, Any] = {name: _path(environ, name, getattr(defaults, name)) for name in PATHS}
        for name in OPTIONAL_PATHS:
            read[name] = PLACE / Path(environ[name.upper()]).expanduser() if environ.get(name.upper()) else None
        read |= {name: _number(environ, name, getattr(defaults, name), 0, INSTANCES) for name in COUNTS}
        read |= {name: _number(environ, name, getattr(defaults, name), 1, 65535) for name in PORTS}
        for offset, name in enumerate(("rabbitmq_dist_port", "rabbitmq_epmd_port"), start=1):
            read[name] = _number(environ, name, read["rabbitmq_port"] + offset, 1, 65535)
        read["port_base"] = base
        read["language_models"] = _number(environ, "language_models", 0, 0, 1)
        read["watch"] = _number(environ, "watch", 0, 0, 1) == 1
        passed = {key: value for key, value in environ.items() if key.startswith(PASSED)}
        return replace(defaults, **read, environment=passed)

    @classmethod
    def private(cls, stack_dir: Path, *, gateways: int = 1, dispatchers: int = 1, notifiers: int = 1) -> "Settings":
        """Return settings of a stack for tests: on free ports, with room for more instances, and not durable."""
        ports: dict[str, Any] = _lay_out(free_block(_count_ports(PRIVATE_INSTANCES)), PRIVATE_INSTANCES)
        counts: dict[str, Any] = {"gateways": gateways, "dispatchers": dispatchers, "notifiers": notifiers}
        return cls(stack_dir=stack_dir, durable=False, **counts, **ports)

    @classmethod
    def _from_base(cls, base: int) -> "Settings":
        ports: dict[str, Any] = dict(_lay_out(first_free_block(base, _count_ports(INSTANCES)), INSTANCES))
        return cls(stack_dir=DATA / f"stack-{base}", port_base=base, **ports)

    def make_call(self, target: str, **values: str) -> str:
        """Return the command of a target of the Makefile for this stack."""
        command = command_for(target, **values)
        return f"PORT_BASE={self.port_base} {command}" if self.port_base else command

    @property
    def more_models(self) -> list[Path]:
        """The model repositories beside `model_repository`."""
        return [*([LANGUAGE_MODELS] if self.language_models else []), *filter(None, [self.models])]

    @property
    def ports(self) -> dict[str, int]:
        """Every port of the stack, by the variable that sets it."""
        found = {name.upper(): getattr(self, name) for name in PORTS if name not in SERVICE_PORTS}
        for count, name in zip(COUNTS, SERVICE_PORTS, strict=True):
            first = getattr(self, name)
            for index in range(getattr(self, count)):
                found[f"{name.upper()} (+{index})" if index else name.upper()] = first + index
        return found


def _count_ports(instances: int) -> int:
    return len(SERVICE_PORTS) * instances + len(PORTS) - len(SERVICE_PORTS)


def _lay_out(first: int, instances: int) -> dict[str, int]:
    """Return consecutive ports for a stack, with room for so many instances of each service."""
    chosen = {name: first + index * instances for index, name in enumerate(SERVICE_PORTS)}
    servers = [name for name in PORTS if name not in SERVICE_PORTS]
    return chosen | {name: first + len(SERVICE_PORTS) * instances + index for index, name in enumerate(servers)}


def _number(environ: Mapping[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    variable = name.upper()
    text = environ.get(variable) or str(default)
    if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
        raise InvalidSetting(f"{variable} is {text!r}; it must be a whole number from {lowest} to {highest}")
    return int(text)


def _path(environ: Mapping[str, str], name: str, default: Path) -> Path:
    """Return a path; a relative one counts from the repository or the installation, not the working directory."""
    text = environ.get(name.upper())
    return PLACE / Path(text).expanduser() if text else default
