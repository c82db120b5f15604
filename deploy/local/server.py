"""What all servers of the stack have in common."""

from abc import ABC, abstractmethod

from deploy.local.process import Process

UNBORN = 3.0  # seconds to end for a server that never served: RabbitMQ may be deaf to SIGTERM while it boots


class Server(ABC):
    """A process with a way to tell that it serves. Every method returns only when its effect is there."""

    process: Process
    ready_within: float = 30.0  # seconds from launch to ready
    stop_within: float = 10.0  # seconds it may take to end before it is killed
    _served = False

    @property
    def name(self) -> str:
        return self.process.name

    def launch(self) -> None:
        """Start it without waiting until it is ready."""
        self._served = False
        self.prepare()
        self.process.start()

    def wait_ready(self) -> None:
        """Wait until it serves; raise ProcessDied or NotReady."""
        self.process.wait_ready(self.probe, self.ready_within)
        self.greet()
        self._served = True

    def start(self) -> None:
        """Launch it and wait until it serves."""
        self.launch()
        self.wait_ready()

    def stop(self) -> int | None:
        """End it as an operator would; return its exit code."""
        return self.process.stop(self.stop_within if self._served else UNBORN)

    def kill(self) -> None:
        """End it and all its children with SIGKILL."""
        self.process.kill()

    def freeze(self) -> None:
        """Let it hang, with its connections open, until thaw()."""
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
        """Whether it serves, answered within about a second."""

    def prepare(self) -> None:  # noqa: B027 - most servers need nothing
        """Do what must be done before each start."""

    def greet(self) -> None:  # noqa: B027
        """Do what can only be done once it serves."""
