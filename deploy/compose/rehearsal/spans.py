"""Replaces Jaeger: receives OTLP over HTTP, and returns at GET / how many requests each path got."""

import json
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 4318
posts: Counter[str] = Counter()


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        self.answer(json.dumps(posts).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        posts[self.path] += 1
        self.answer(b"")

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("", PORT), Collector).serve_forever()
