"""A network with machines. Each is a network namespace, and all its processes can fail together."""

import signal
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.local.errors import NotReady
from deploy.local.processes.command import run
from deploy.local.processes.tree import alive, freeze, send
from tests.support.cluster.namespaces import SHARED_MEMORY

BRIDGE = "cluster"
GATEWAY = "10.77.0.1"  # the address of the services, the load and the receiver
BRIDGE_ADDRESS = "02:00:0a:4d:00:01"
LINK = "eth0"
KILL_SECONDS = 5.0
FORWARDING, DISABLED = "3", "0"  # states of a port of a bridge
TIMEOUT = 10.0


class Machine:
    """A network namespace with one address."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.directory = SHARED_MEMORY / name
        self.enter = ["nsenter", f"--net={self._namespace}"]

    @property
    def _namespace(self) -> Path:
        return SHARED_MEMORY / "namespaces" / self.name

    @property
    def hardware_address(self) -> str:
        return "02:00:" + ":".join(f"{int(part):02x}" for part in self.address.split("."))

    def create(self) -> None:
        """Create the namespace, and connect it to the bridge."""
        self.directory.mkdir()
        self.directory.chmod(0o755)
        self._namespace.parent.mkdir(exist_ok=True)
        self._namespace.touch()
        _run("unshare", f"--net={self._namespace}", "true")
        peer = ["peer", "name", LINK, "address", self.hardware_address, "netns", str(self._namespace)]
        _run("ip", "link", "add", self.name, "type", "veth", *peer)
        _run("ip", "link", "set", self.name, "master", BRIDGE, "up")
        for command in (
            ["addr", "add", f"{self.address}/16", "dev", LINK],
            ["link", "set", LINK, "up"],
            ["link", "set", "lo", "up"],
        ):
            _run(*self.enter, "ip", *command)

    def kill(self) -> None:
        """Kill all its processes, also those that have left their parents."""
        deadline = time.monotonic() + KILL_SECONDS
        while pids := self.find_processes():
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name}: processes {sorted(pids)} outlive SIGKILL")
            send(pids, signal.SIGKILL)

    def freeze(self) -> None:
        """Stop all its processes: connections stay open, nothing answers."""
        freeze(self.find_processes)

    def thaw(self) -> None:
        """Undo freeze()."""
        send(self.find_processes(), signal.SIGCONT)

    def cut_off(self) -> None:
        """Drop every packet to and from it, silently."""
        _run("bridge", "link", "set", "dev", self.name, "state", DISABLED)

    def reconnect(self) -> None:
        """Undo cut_off()."""
        _run("bridge", "link", "set", "dev", self.name, "state", FORWARDING)

    def find_processes(self) -> set[int]:
        wanted = self._namespace.stat().st_ino
        pids = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
        return {pid for pid in alive(pids) if _find_namespace(pid) == wanted}


def create_network(machines: Sequence[Machine]) -> None:
    """Connect the machines with a bridge, and this namespace too."""
    _run("ip", "link", "add", BRIDGE, "address", BRIDGE_ADDRESS, "type", "bridge")
    _run("ip", "addr", "add", f"{GATEWAY}/16", "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")
    for machine in machines:
        machine.create()
    # Fixed neighbours. Without them, connecting to a machine that is cut off fails within three seconds, because
    # nobody answers ARP. Behind a router it would take until the caller's deadline.
    neighbours = {GATEWAY: BRIDGE_ADDRESS} | {each.address: each.hardware_address for each in machines}
    for address, hardware in neighbours.items():
        entry = ["ip", "neigh", "replace", address, "lladdr", hardware, "nud", "permanent", "dev"]
        if address != GATEWAY:
            _run(*entry, BRIDGE)
        for machine in machines:
            if machine.address != address:
                _run(*machine.enter, *entry, LINK)


def _find_namespace(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return None  # it has ended


def _run(*argv: str) -> str:
    return run(argv, timeout=TIMEOUT)
