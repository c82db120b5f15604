"""A TLS server in threads that keeps every byte said to it: blocking sockets send the alerts that asyncio swallows."""

import socket
import ssl
import threading

from deploy.local.ports import HOST

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


class TlsServer:
    """Answers 204 to each request once its head is there, on a free port, between `with` and its end."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.heard: list[bytes] = []  # what came inside TLS
        self.refused: list[str] = []  # why there was no TLS
        self.listening = socket.create_server((HOST, 0))
        self.port: int = self.listening.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)

    def __enter__(self) -> "TlsServer":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listening.close()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:  # closed
                return
            connection.settimeout(20)
            with connection:
                self.serve(connection)

    def serve(self, connection: socket.socket) -> None:
        try:
            secured = self.context.wrap_socket(connection, server_side=True)
        except OSError as error:
            self.refused.append(str(error))
            return
        with secured:
            while said := self.receive(secured):
                self.heard.append(said)
                if b"\r\n\r\n" in said:
                    secured.sendall(NO_CONTENT)

    def receive(self, secured: ssl.SSLSocket) -> bytes:
        try:
            return secured.recv(65536)
        except OSError:
            return b""
