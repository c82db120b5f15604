"""An HTTP server in threads. It answers even while the tests' event loop is busy."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as received: names of headers in lower case, exact bytes of the body, the path as sent."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """A response to send."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Server(ThreadingHTTPServer):
    request_queue_size = 1000  # with fewer, a client that sends many at once waits a second for a lost connection


class Listener:
    """Passes each POST to `handle`, which returns a status or a reply. Closes the connection after it."""

    def __init__(self, handle: Callable[[ReceivedRequest], int | Reply], port: int) -> None:
        self._server = Server((HOST, port), make_handler(handle))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        """Refuse connections from now on."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def make_handler(handle: Callable[[ReceivedRequest], int | Reply]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            if len(body := self.rfile.read(length)) < length:  # the sender died
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            result = handle(ReceivedRequest(self.path, headers, body))
            reply = Reply(result) if isinstance(result, int) else result
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Log nothing."""

    return Handler
