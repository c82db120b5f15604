"""An HTTP server in threads, so that it answers whatever the tests' own event loop does."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Received:
    """A request as it came: header names in lower case, the body's exact bytes, the path as sent."""

    path: str
    headers: dict[str, str]
    body: bytes


class Listener:
    """Passes each POST to `answer`, which returns the status, and closes the connection after it."""

    def __init__(self, answer: Callable[[Received], int], port: int) -> None:
        self.server = ThreadingHTTPServer((HOST, port), make_handler(answer))
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def close(self) -> None:
        """From now on connections are refused."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def make_handler(answer: Callable[[Received], int]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(answer(Received(self.path, headers, body)))
            self.send_header("content-length", "0")
            self.send_header("connection", "close")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Nothing."""

    return Handler
