"""A stack: PostgreSQL, RabbitMQ, Triton and the services."""

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from deploy.local.errors import LocalError
from deploy.local.processes.lock import Lock
from deploy.local.processes.log import Listener
from deploy.local.processes.ports import HOST, require_free
from deploy.local.running import forget_ports, remember_ports
from deploy.local.servers.postgres import Postgres
from deploy.local.servers.rabbitmq import RabbitMQ
from deploy.local.servers.repositories import check_language_models, check_models
from deploy.local.servers.server import Server
from deploy.local.servers.triton import Triton
from deploy.local.services import (
    OWN,
    REPOSITORY_KEY,
    Installation,
    Service,
    environment_for,
    migrate,
    repository_key,
)
from deploy.local.settings import LANGUAGE_MODELS, Settings

MODEL_MEMORY = "CHARONIA_MODEL_MEMORY"  # with it, the dispatchers load the models


class Stack:
    """All processes of a stack. `python -m deploy.local prepare` installs what it needs.

    Its methods block: from asyncio, use asyncio.to_thread. Use it as a context manager, or always call stop().
    """

    def __init__(self, settings: Settings, on_line: Listener | None = None, installation: Installation = OWN) -> None:
        """`installation` is what migrations and services are started from."""
        self.settings = settings
        self.installation = installation
        self.log_dir = settings.stack_dir.absolute() / "log"
        self._on_line = on_line
        self._lock = Lock(settings.stack_dir)
        directory = settings.stack_dir
        # PostgreSQL and RabbitMQ print much when they start; their lines stay in their files.
        self.postgres = Postgres(
            directory, settings.postgres_port, durable=settings.durable, options=settings.postgres_options
        )
        self.rabbitmq = RabbitMQ(
            directory,
            settings.rabbitmq_port,
            settings.rabbitmq_dist_port,
            settings.rabbitmq_epmd_port,
        )
        self.triton = Triton(
            directory,
            settings.model_repository,
            settings.triton_grpc_port,
            settings.triton_http_port,
            settings.triton_metrics_port,
            settings.triton_venv,
            more_models=settings.more_models,
            models_python=settings.models_python,
            otlp_endpoint=settings.environment.get("OTEL_EXPORTER_OTLP_ENDPOINT"),
            model_control=settings.model_control,
            loads_models=MODEL_MEMORY not in settings.environment,
            repository_key=settings.environment.get(REPOSITORY_KEY) or repository_key(directory),
            on_line=on_line,
        )
        self.environment = environment_for(
            self.postgres.url,
            self.rabbitmq.url,
            self.triton.grpc_address,
            f"http://{HOST}:{settings.gateway_port}",
            directory,
            self._measure_models() | dict(settings.environment),
        )
        self.gateways = self._services("gateway", settings.gateways, settings.gateway_port)
        self.dispatchers = self._services("dispatcher", settings.dispatchers, settings.dispatcher_port)
        self.notifiers = self._services("notifier", settings.notifiers, settings.notifier_port)

    def _measure_models(self) -> dict[str, str]:
        """Return the setting by which dispatchers that load models learn what these take."""
        is_needed = MODEL_MEMORY in self.settings.environment
        return {"CHARONIA_TRITON_METRICS_URL": self.triton.metrics_url} if is_needed else {}

    @property
    def servers(self) -> list[Server]:
        """PostgreSQL, RabbitMQ and Triton in the order of starting, the slowest first. Only dispatchers need Triton."""
        return [self.rabbitmq, *([self.triton] if self.dispatchers else []), self.postgres]

    @property
    def services(self) -> list[Service]:
        """Charonia's services, in the order of starting."""
        return [*self.dispatchers, *self.notifiers, *self.gateways]

    @property
    def url(self) -> str:
        """The URL of the first gateway."""
        return f"http://127.0.0.1:{self.settings.gateway_port}"

    @property
    def is_locked(self) -> bool:
        """Whether this process has the stack: from the beginning of start() to the end of stop()."""
        return self._lock.is_held

    def start(self) -> None:
        """Start everything and wait until it is ready; if that fails, stop everything and raise LocalError."""
        self._lock.acquire()
        try:
            forget_ports(self.settings.stack_dir)  # those of a stack that was killed
            check_models(self.settings.model_repository, self.settings.models)
            if self.settings.language_models:
                check_language_models(LANGUAGE_MODELS, [self.settings.model_repository, self.settings.models])
            require_free(self.settings.ports)
            self.start_servers()
            self.migrate()
            self.start_services()
            remember_ports(self.settings)
        except BaseException:
            self.stop()
            raise

    def start_servers(self) -> None:
        """Start PostgreSQL, RabbitMQ and Triton at the same time, because each takes seconds."""
        _start(self.servers)

    def migrate(self) -> None:
        """Bring the database to the newest schema; raise ProcessDied, with the end of the log, if that fails."""
        migrate(self.environment, self.log_dir, self._on_line, self.installation)

    def start_services(self) -> None:
        """Start the services at the same time; the database must be migrated."""
        _start(self.services)

    def stop(self) -> None:
        """Stop everything, services first; return when nothing runs."""
        for member in (*reversed(self.services), *self.servers):
            with suppress(LocalError):
                member.stop()
        if self.is_locked:
            forget_ports(self.settings.stack_dir)
        self._lock.release()

    def check(self) -> None:
        """Raise ProcessDied if a process has ended by itself since start()."""
        for member in (*self.servers, *self.services):
            member.process.check()

    def __enter__(self) -> "Stack":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _services(self, kind: str, count: int, port: int) -> list[Service]:
        names = [kind] if count == 1 else [f"{kind}-{index + 1}" for index in range(count)]
        return [
            Service(
                kind,
                port + index,
                self.environment,
                self.log_dir,
                name=name,
                on_line=self._on_line,
                installation=self.installation,
            )
            for index, name in enumerate(names)
        ]


def _start(members: Sequence[Server]) -> None:
    for member in members:
        member.launch()
    for member in members:
        member.wait_ready()
