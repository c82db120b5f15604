"""A small HTTP server on loopback that keeps all requests."""

import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from types import TracebackType

from deploy.local.processes.ports import HOST

LARGEST = 8 * 1024 * 1024  # bytes of one body
IDLE_SECONDS = 30.0  # until a connection without requests is closed


@dataclass(frozen=True)
class Posted:
    """One request: names of headers are in lower case, `at` is from time.monotonic()."""

    headers: dict[str, str]
    body: bytes
    at: float


class Inbox:
    """A context manager that serves each connection in a thread of its own."""

    def __init__(self) -> None:
        self._posted: Queue[Posted] = Queue()
        posted = self._posted

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = IDLE_SECONDS

            def do_POST(self) -> None:
                length = self.headers.get("Content-Length", "")
                if not length.isdecimal() or int(length) > LARGEST:
                    self.close_connection = True
                    self._answer(413)
                    return
                at = time.monotonic()
                body = self.rfile.read(int(length))
                posted.put(Posted({name.lower(): value for name, value in self.headers.items()}, body, at))
                self._answer(200)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                """Print nothing."""

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self._server = ThreadingHTTPServer((HOST, 0), Handler)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}"

    def take(self, timeout: float) -> Posted | None:
        """Return the oldest request that was not taken yet; None if there is none within `timeout` seconds."""
        try:
            return self._posted.get(timeout=timeout)
        except Empty:
            return None

    def __enter__(self) -> "Inbox":
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="inbox", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
