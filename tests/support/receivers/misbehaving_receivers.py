"""Receivers that hang, send slowly, or send far too much. They are handlers of a raw server, chosen by path."""

import socket
import threading
import zlib
from collections import Counter

from tests.support.receivers.raw_server import NO_CONTENT

LIMIT = 64 * 1024 * 1024  # bytes after which a flood stops; far more than the buffers of both sockets hold
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
GZIP = CHUNKED.replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1)


def make_compression_bomb() -> bytes:
    """Return 10 KB of gzip that unpack to 10 MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(bytes(10_000_000)) + packer.flush()


COMPRESSION_BOMB = make_compression_bomb()
# By path: what is sent first, what is repeated, and the expected error.
FLOODS: dict[str, tuple[bytes, bytes, str]] = {
    "/10-GB": (b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n", b"x", "response_too_large"),
    "/endless": (CHUNKED, b"4000\r\n" + b"x" * 0x4000 + b"\r\n", "response_too_large"),
    "/endless-error": (b"HTTP/1.1 500 Oh\r\n\r\n", b"x", "http_status"),
    "/bombs": (GZIP, f"{len(COMPRESSION_BOMB):x}\r\n".encode() + COMPRESSION_BOMB + b"\r\n", "response_too_large"),
    "/tiny-chunks": (CHUNKED, b"1\r\nx\r\n", "response_too_large"),
    "/chunk-extension": (CHUNKED + b"1;", b"x", "response_too_large"),
    "/million-headers": (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", "bad_response"),
    "/long-header": (b"HTTP/1.1 200 OK\r\nX-A: ", b"x", "bad_response"),
    "/long-reason": (b"HTTP/1.1 200 ", b"x", "bad_response"),
    "/interim": (b"", b"HTTP/1.1 103 \r\n\r\n", "response_too_large"),
    "/trailers": (CHUNKED + b"2\r\nok\r\n0\r\n", b"X-A: b\r\n", "bad_response"),
    "/upgrade": (b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", b"x", "http_status"),
}
DRIPS: dict[str, tuple[bytes, bytes]] = {
    "/hang": (b"", b""),
    "/drip-header": (b"HTTP/1.1 200 OK\r\nX-A: ", b"x"),
    "/drip-headers": (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
    "/drip-body": (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
    "/drip-chunks": (CHUNKED, b"1\r\nx\r\n"),
}


class MisbehavingReceiver:
    """A handler of a raw server."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()  # bytes by path
        self.ended: set[str] = set()  # floods that the sender cut off, or that reached the limit
        self.answered = threading.Event()  # starts the flood that follows a complete response

    def __call__(self, path: str, connection: socket.socket) -> None:
        if path in DRIPS:
            self._drip(connection, *DRIPS[path])
        elif path in FLOODS:
            self._flood(path, connection, *FLOODS[path][:2])
        elif path == "/bomb":
            connection.sendall(GZIP + f"{len(COMPRESSION_BOMB):x}\r\n".encode() + COMPRESSION_BOMB + b"\r\n0\r\n\r\n")
        else:
            connection.sendall(NO_CONTENT)
            if path == "/after":
                self.answered.wait(30)  # and reads no further request, though the sender may keep the connection
                self._flood(path, connection, b"", NO_CONTENT)

    async def have_all_ended(self) -> bool:
        return self.ended >= {*FLOODS, "/after"}

    def _flood(self, path: str, connection: socket.socket, start: bytes, repeated: bytes) -> None:
        repeated *= 65536 // len(repeated) + 1
        try:
            connection.sendall(start)
            while self.sent[path] < LIMIT:
                connection.sendall(repeated)
                self.sent[path] += len(repeated)
        finally:
            self.ended.add(path)

    def _drip(self, connection: socket.socket, start: bytes, repeated: bytes) -> None:
        """Send one piece every 50 ms until the sender hangs up."""
        connection.sendall(start)
        connection.settimeout(0.05)
        while True:
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                connection.sendall(repeated)
