"""A receiver in threads that answers with any bytes and keeps every byte it receives.

Blocking sockets send the TLS alerts that asyncio swallows. They also write while the tests' event loop is busy.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable

from deploy.local.processes.ports import HOST

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"

# Gets the path and the connection. Any OSError it raises ends the connection.
Handler = Callable[[str, socket.socket], None]


def accept(_path: str, connection: socket.socket) -> None:
    connection.sendall(NO_CONTENT)


class RawServer:
    """Listens on a free port inside `with`. Its end closes every connection."""

    def __init__(self, handler: Handler = accept, *, context: ssl.SSLContext | None = None, host: str = HOST) -> None:
        self._handler = handler
        self._context = context
        self.connections = 0
        self.tls_errors: list[str] = []  # errors of TLS handshakes
        self.received: list[bytes] = []  # what was received, decrypted if there is a context
        self._listening = socket.create_server((host, 0), backlog=100)
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._listen)]

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://{self._listening.getsockname()[0]}:{self.port}"

    def __enter__(self) -> "RawServer":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listening.close()
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:  # closed
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), self._secure(connection) as secured:
            self._open.add(secured)
            while path := self._read_request(secured):
                self._handler(path, secured)
            self._open.discard(secured)

    def _secure(self, connection: socket.socket) -> socket.socket:
        if self._context is None:
            return connection
        try:
            return self._context.wrap_socket(connection, server_side=True)
        except OSError as error:
            self.tls_errors.append(str(error))
            raise

    def _read_request(self, connection: socket.socket) -> str:
        """Return the path of the next request once all of it is here, or nothing at the end."""
        request = b""
        while b"\r\n\r\n" not in request or len(request) < find_length(request):
            part = connection.recv(65536)
            if not part:
                return ""
            self.received.append(part)
            request += part
        return request.split(b" ", 2)[1].decode()


def find_length(request: bytes) -> int:
    head = request.lower().partition(b"\r\n\r\n")[0]
    return len(head) + 4 + int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
