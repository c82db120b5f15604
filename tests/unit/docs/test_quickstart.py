"""The receiver in the quickstart works."""

import http.server
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.security import webhook_signatures

PAGE = Path(__file__).parents[3] / "docs" / "quickstart.md"
SECRET = webhook_signatures.new_secret("hmac")


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of the quickstart's receiver, on a free port."""
    monkeypatch.setenv("SECRET", SECRET)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    definitions, _, start = code.strip().rpartition("\n")
    assert start.startswith("http.server.HTTPServer(")
    copied: dict[str, type[http.server.BaseHTTPRequestHandler]] = {}
    exec(definitions, copied)  # noqa: S102 -- readers run it too
    with http.server.HTTPServer(("127.0.0.1", 0), copied["Receiver"]) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("sent", "status"), [(b'{"n": 1}', 204), (b'{"n": 2}', 401)])
def test_the_receiver_accepts_a_genuine_webhook_only(
    url: str, capsys: pytest.CaptureFixture[str], sent: bytes, status: int
) -> None:
    at, secrets = int(time.time()), [webhook_signatures.new_secret("hmac"), SECRET]
    signature = webhook_signatures.sign(secrets, "dlv_1", at, b'{"n": 1}')
    headers = {"webhook-id": "dlv_1", "webhook-timestamp": str(at), "webhook-signature": signature}
    request = urllib.request.Request(url, sent, headers)  # noqa: S310 -- a loopback URL
    try:
        with urllib.request.urlopen(request) as response:  # noqa: S310
            answered = response.status
    except urllib.error.HTTPError as error:
        answered = error.code
    assert answered == status
    assert capsys.readouterr().out.startswith("genuine" if status == 204 else "FORGED")
