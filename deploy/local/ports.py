"""TCP ports on loopback."""

import random
import socket
from collections.abc import Mapping

from deploy.local.errors import PortTaken

HOST = "127.0.0.1"
# Below the range from which Linux takes the ports of outgoing connections, one of which could take ours.
LOWEST, HIGHEST = 20_000, 29_999
ATTEMPTS = 1000

_given: set[int] = set()


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do; ports in TIME_WAIT count as free
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return ports that are free and that this process was not given before; raise PortTaken where there are none."""
    return [free_block(1) for _ in range(count)]


def free_block(size: int) -> int:
    """Return the first of that many consecutive ports, all free and not given before; raise PortTaken."""
    for _ in range(ATTEMPTS):
        first = random.randint(LOWEST, HIGHEST - size)  # noqa: S311 - no secret
        block = set(range(first, first + size))
        if not block & _given and all(is_free(port) for port in block):
            _given.update(block)
            return first
    raise PortTaken(f"no {size} consecutive free ports found between {LOWEST} and {HIGHEST}")


def require_free(ports: Mapping[str, int]) -> None:
    """Raise PortTaken, which names the variable, unless all are free and different."""
    seen: dict[int, str] = {}
    for variable, port in ports.items():
        if port in seen:
            raise PortTaken(f"{variable} and {seen[port]} both want port {port}: set one of them to another port")
        seen[port] = variable
        if not is_free(port):
            raise PortTaken(f"port {port} is in use: set {variable} to another port, or stop what listens there")
