"""An HTTP server in threads, so that it answers whatever the tests' own event loop does."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Received:
    """A request as it came: header names in lower case, the body's exact bytes, the path as sent."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """What is answered."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Server(ThreadingHTTPServer):
    request_queue_size = 1000  # else whoever sends many at a time waits a second for a lost connection


class Listener:
    """Passes each POST to `answer`, which returns at least the status, and closes the connection after it."""

    def __init__(self, answer: Callable[[Received], int | Reply], port: int) -> None:
        self.server = Server((HOST, port), make_handler(answer))
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def close(self) -> None:
        """From now on connections are refused."""
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def make_handler(answer: Callable[[Received], int | Reply]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            if len(body := self.rfile.read(length)) < length:  # the sender died
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            answered = answer(Received(self.path, headers, body))
            reply = Reply(answered) if isinstance(answered, int) else answered
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(reply.body)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Nothing."""

    return Handler
