"""A webhook receiver that prints verified webhooks. It needs only the standard library; copy what you like.

It answers 204 to a webhook with a correct signature, and 401 to any other. So each delivered webhook was verified.
"""

import base64
import hashlib
import hmac
import json
import os
import signal
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ.get("PORT", "8000"))
LARGEST = 8 * 1024 * 1024  # bytes of one body
TOLERANCE = 300  # seconds


def fetch_secret() -> str:
    """Return the secret that signs the tenant's callbacks."""
    url = os.environ["CHARONIA_URL"] + "/v1/webhook-secret"
    headers = {"Authorization": f"Bearer {os.environ['CHARONIA_KEY']}"}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - a configured URL
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
        return str(json.load(answer)["secret"])


def is_genuine(secret: str, headers: dict[str, str], body: bytes) -> bool:
    try:
        sent_at = int(headers["webhook-timestamp"])
        signed = f"{headers['webhook-id']}.{sent_at}.".encode() + body
        given = [each[3:] for each in headers["webhook-signature"].split() if each.startswith("v1,")]
    except (KeyError, ValueError):
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    fresh = abs(time.time() - sent_at) < TOLERANCE
    return fresh and any(hmac.compare_digest(expected.encode(), each.encode()) for each in given)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        self.answer(200)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            self.close_connection = True
            self.answer(413)
            return
        body = self.rfile.read(int(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            genuine = is_genuine(fetch_secret(), headers, body)
        except OSError as error:
            print(f"the secret could not be read: {error}")
            self.answer(503)
            return
        if genuine:
            event = json.loads(body)
            print(f"verified {headers['webhook-id']} {event['type']} {json.dumps(event['data'])[:200]}")
        else:
            print(f"refused {headers.get('webhook-id')}: the signature is wrong")
        self.answer(204 if genuine else 401)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing: there is one line for each webhook."""


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # the first process of a container ignores it otherwise
    ThreadingHTTPServer(("", PORT), Receiver).serve_forever()
