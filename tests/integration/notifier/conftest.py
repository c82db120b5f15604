"""DNS answers under a test's control, and a list of the connections made."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

Names = dict[str, list[str] | int | Callable[[], list[str]]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """For each name: addresses, a function that returns them, or a getaddrinfo error number.

    Other names are resolved as usual.
    """
    known: Names = {}
    system = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *rest: Any, **options: Any) -> Any:
        if (found := known.get(host)) is None:
            return system(host, port, *rest, **options)
        if isinstance(found, int):
            raise socket.gaierror(found, "a test's own error")
        return [make_answer(address, port) for address in (found if isinstance(found, list) else found())]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


def make_answer(address: str, port: int) -> tuple[Any, ...]:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The address of every connection attempt of this process, including refused ones."""
    begun: list[tuple[Any, ...]] = []

    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            begun.append(address)
            super().connect(address)

    monkeypatch.setattr(socket, "socket", Socket)
    return begun
