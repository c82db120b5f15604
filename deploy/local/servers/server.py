"""The base class of all servers of the stack."""

from abc import ABC, abstractmethod

from deploy.local.processes.process import Process

NEVER_READY_SECONDS = 3.0  # to end, for a server that was never ready: RabbitMQ may ignore SIGTERM while it boots


class Server(ABC):
    """A process that can be probed. Every method returns after its effect is complete."""

    process: Process
    ready_within: float = 30.0  # seconds from launch to ready
    stop_within: float = 10.0  # seconds it may take to end before it is killed
    _served = False

    @property
    def name(self) -> str:
        return self.process.name

    def launch(self) -> None:
        """Start it, and do not wait until it is ready."""
        self._served = False
        self.prepare()
        self.process.start()

    def wait_ready(self) -> None:
        """Wait until it is ready; raise ProcessDied or NotReady."""
        self.process.wait_ready(self.probe, self.ready_within)
        self.greet()
        self._served = True

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.launch()
        self.wait_ready()

    def stop(self) -> int | None:
        """Stop it as an operator would; return its exit code."""
        return self.process.stop(self.stop_within if self._served else NEVER_READY_SECONDS)

    def kill(self) -> None:
        """Kill it and all its children with SIGKILL."""
        self.process.kill()

    def freeze(self) -> None:
        """Make it hang, with its connections open, until thaw()."""
        self.process.freeze()

    def thaw(self) -> None:
        """Undo freeze()."""
        self.process.thaw()

    def restart(self) -> None:
        """Stop and start it."""
        self.stop()
        self.start()

    @abstractmethod
    def probe(self) -> bool:
        """Return whether it is ready, within about a second."""

    def prepare(self) -> None:  # noqa: B027 - most servers need nothing
        """Prepare each start."""

    def greet(self) -> None:  # noqa: B027
        """Finish each start, after it is ready."""
