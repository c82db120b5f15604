"""A private stack with the drivers of what is measured on it."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from benchmarks.driver import Driver
from benchmarks.speed import Figures
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import Settings
from deploy.local.stack import Stack

STARTUP = 30.0  # seconds
MODELS = Path(__file__).parent / "models"
FOREVER = {"CHARONIA_RETENTION": str(10 * 365 * 86_400)}  # seconds: what is removed, and when, is a benchmark's to say


class Bench(Protocol):
    """What is measured: figures by name, and how a table of them reads."""

    @property
    def titles(self) -> Mapping[str, str]: ...

    @property
    def groups(self) -> Mapping[str, str]: ...

    @property
    def heads(self) -> tuple[str, ...]:
        """The figures that are told after each round."""

    def warm_up(self) -> None: ...

    def run(self) -> Figures:
        """Measure once; raise LocalError where something is lost."""


@dataclass(frozen=True)
class Options:
    """`seconds` are those of a part of a round, `rows` and `queued` ended and waiting jobs in the tables, `jobs` those
    in flight.
    """

    seconds: float
    rows: int
    queued: int
    jobs: int


@dataclass(frozen=True)
class Place:
    """`port` is that of the collector of traces; the drivers end with `stopping`."""

    stack: Stack
    options: Options
    port: int
    stopping: ExitStack
    drivers: dict[str, Driver] = field(default_factory=dict)

    def drive(self, name: str, module: str, *arguments: str) -> Driver:
        """The driver of this name, started where there is none yet."""
        if name not in self.drivers:
            self.drivers[name] = self.stopping.enter_context(Driver(module, *arguments))
        return self.drivers[name]

    def load(self) -> Driver:
        return self.drive("load", "benchmarks.load", self.stack.url, DEVELOPMENT_KEY)

    def direct(self) -> Driver:
        return self.drive("direct client", "benchmarks.direct", self.stack.triton.grpc_address)

    def submissions(self) -> Driver:
        return self.drive("submissions", "benchmarks.submitting", DEVELOPMENT_KEY)

    def receiver(self) -> tuple[Driver, str]:
        """With its URL."""
        receiver = self.drive("receiver", "benchmarks.receiver")
        return receiver, receiver.ask(STARTUP, kind="url")["url"]

    def list_leaders(self, *names: str) -> dict[str, int]:
        """The processes whose CPU time is told, by name; of the drivers, these."""
        members = {member.name: member.process.pid for member in (*self.stack.servers, *self.stack.services)}
        running = {name: pid for name, pid in members.items() if pid is not None}
        return running | {name: self.drivers[name].pid for name in names}


@contextmanager
def open_stack(directory: Path, environment: Mapping[str, str] | None = None, **counts: int) -> Iterator[Stack]:
    """A stack with one instance of each service, unless `counts` say otherwise; its data go with it."""
    directory.mkdir()
    settings = replace(
        Settings.private(directory, **counts),
        durable=True,
        environment=FOREVER | dict(environment or {}),
        model_repository=_lay_models(directory / "models"),
    )
    stack = Stack(settings)
    with ExitStack() as stopping:
        stopping.callback(stack.postgres.delete)  # its data may be elsewhere
        yield stopping.enter_context(stack)


def _lay_models(repository: Path) -> Path:
    """The models for demonstrations, and `slow`: it works as `work` does, but takes more at once."""
    repository.mkdir()
    given = Settings().model_repository
    for model in given.iterdir():
        (repository / model.name).symlink_to(model)
    for model in MODELS.iterdir():
        (repository / model.name).mkdir()
        (repository / model.name / "1").symlink_to(given / "work" / "1")
        (repository / model.name / "config.pbtxt").symlink_to(model / "config.pbtxt")
    return repository
