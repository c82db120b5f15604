"""A receiver in threads that answers with bytes, whatever they are, and keeps every byte said to it.

Blocking sockets: they send the TLS alerts that asyncio swallows, and write whatever the tests' event loop does.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable

from deploy.local.ports import HOST

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"

Answer = Callable[[str, socket.socket], None]  # given the path; whatever it raises of OSError ends the connection


def accept(_path: str, connection: socket.socket) -> None:
    connection.sendall(NO_CONTENT)


class RawServer:
    """Listens on a free port between `with` and its end, which closes every connection."""

    def __init__(self, answer: Answer = accept, *, context: ssl.SSLContext | None = None, host: str = HOST) -> None:
        self.answer = answer
        self.context = context
        self.connections = 0
        self.refused: list[str] = []  # why a connection did not come to TLS
        self.heard: list[bytes] = []  # what came, inside TLS where there is a context
        self.listening = socket.create_server((host, 0), backlog=100)
        self.port: int = self.listening.getsockname()[1]
        self.open: set[socket.socket] = set()
        self.threads = [threading.Thread(target=self.listen)]

    @property
    def url(self) -> str:
        return f"{'https' if self.context else 'http'}://{self.listening.getsockname()[0]}:{self.port}"

    def __enter__(self) -> "RawServer":
        self.threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.threads[0].join()
        self.listening.close()
        for connection in tuple(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()

    def listen(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:  # closed
                return
            self.connections += 1
            thread = threading.Thread(target=self.serve, args=(connection,))
            self.threads.append(thread)
            thread.start()

    def serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), self.secure(connection) as secured:
            self.open.add(secured)
            while path := self.take(secured):
                self.answer(path, secured)
            self.open.discard(secured)

    def secure(self, connection: socket.socket) -> socket.socket:
        if self.context is None:
            return connection
        try:
            return self.context.wrap_socket(connection, server_side=True)
        except OSError as error:
            self.refused.append(str(error))
            raise

    def take(self, connection: socket.socket) -> str:
        """The path of the next request, once all of it is here; none where there comes no more."""
        said = b""
        while b"\r\n\r\n" not in said or len(said) < length_of(said):
            more = connection.recv(65536)
            if not more:
                return ""
            self.heard.append(more)
            said += more
        return said.split(b" ", 2)[1].decode()


def length_of(request: bytes) -> int:
    head = request.lower().partition(b"\r\n\r\n")[0]
    return len(head) + 4 + int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
