"""TCP ports on loopback."""

import random
import socket
from collections.abc import Mapping

from deploy.local.errors import PortTaken

HOST = "127.0.0.1"
# Below the range for outgoing connections, which could take such a port, and none to which webhooks may not go.
PORTS = range(12_000, 22_000)
ATTEMPTS = 1000
BLOCKS = 50  # tried from a base on
HIGHEST = 65_535

_given: set[int] = set()
_ours = PORTS


def use_share(number: int, count: int) -> None:
    """Choose ports from one of `count` equal shares, so that processes side by side never choose the same."""
    global _ours
    size = len(PORTS) // count
    _ours = PORTS[number * size : (number + 1) * size]


def is_free(port: int) -> bool:
    """Return whether a server can listen on this port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do; ports in TIME_WAIT count as free
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Return ports that are free and that this process did not get before; raise PortTaken if there are none."""
    return [free_block(1) for _ in range(count)]


def free_block(size: int) -> int:
    """Return the first of `size` consecutive ports, as free_ports() does; raise PortTaken."""
    for _ in range(ATTEMPTS):
        first = random.choice(_ours[: len(_ours) - size])  # noqa: S311 - no secret
        block = set(range(first, first + size))
        if not block & _given and all(is_free(port) for port in block):
            _given.update(block)
            return first
    raise PortTaken(f"no {size} consecutive free ports found from {_ours[0]} to {_ours[-1]}")


def first_free_block(base: int, size: int) -> int:
    """Return the first of `size` consecutive free ports, at `base` or some blocks above; raise PortTaken."""
    for first in range(base, min(base + BLOCKS * size, HIGHEST - size + 2), size):
        if all(is_free(port) for port in range(first, first + size)):
            return first
    raise PortTaken(f"no {size} consecutive free ports found from {base} on: set PORT_BASE to another port")


def require_free(ports: Mapping[str, int]) -> None:
    """Raise PortTaken, which names the variable, unless all ports are free and different."""
    seen: dict[int, str] = {}
    for variable, port in ports.items():
        if port in seen:
            raise PortTaken(f"{variable} and {seen[port]} both have port {port}: set one of them to another port")
        seen[port] = variable
        if not is_free(port):
            raise PortTaken(
                f"port {port} is in use: set {variable} to another port, or PORT_BASE to move all ports, "
                "or stop the process that listens there"
            )
