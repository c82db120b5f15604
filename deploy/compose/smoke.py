"""Uploads an image of text to the running stack, submits it, and waits until the receiver has verified the webhook.

The exit code is 0 if all of it worked. RECEIVER_URL is the receiver's address as the notifier sees it. In production
it has no default, because the stack's own receiver is in a private network. URLs that begin
with STORE_PUBLIC_ENDPOINT are called at STORE_ENDPOINT, because the first is for programs outside of the containers.
The script needs only the standard library.
"""

# ruff: noqa: S310 - all URLs are Charonia's

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

IMAGE = Path(os.environ.get("IMAGE", "/demo.png"))
WITHIN = 120.0  # seconds
URL = os.environ["CHARONIA_URL"]
RECEIVER = os.environ["RECEIVER_URL"]
STORE, PUBLIC_STORE = os.environ.get("STORE_ENDPOINT", ""), os.environ.get("STORE_PUBLIC_ENDPOINT", "")
AUTHORIZATION = {"Authorization": f"Bearer {os.environ['CHARONIA_KEY']}"}


def ask(path: str, body: object = None) -> dict[str, Any]:
    content = None if body is None else json.dumps(body).encode()
    headers = AUTHORIZATION | {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(URL + path, content, headers), timeout=10) as answer:
        return dict(json.load(answer))


def wait_for(path: str, key: str, *wanted: object) -> dict[str, Any]:
    """Poll until the `key` of the answer is one of `wanted`; exit with an error after WITHIN seconds."""
    deadline = time.monotonic() + WITHIN
    seen: object = None
    while time.monotonic() < deadline:
        try:
            answer = ask(path)
            if (seen := answer[key]) in wanted:
                return answer
        except OSError as error:  # nothing listens yet, or the model is not known yet
            seen = error
        time.sleep(0.5)
    sys.exit(f"{path}: {key} is still {seen!r} after {WITHIN:g} s")


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to the caller: the object store must not see the API key."""

    def redirect_request(self, *_: Any) -> None:
        return None


def at_store(url: str, content: bytes | None = None, **options: Any) -> urllib.request.Request:
    """Return a request for a presigned URL. Its signature covers the public host."""
    request = urllib.request.Request(url.replace(PUBLIC_STORE, STORE, 1), content, **options)
    request.add_header("Host", urlsplit(url).netloc)
    return request


def upload(content: bytes) -> str:
    """Send a file to the object store, without a gateway in between, and get it from there. Return its id."""
    begin = time.monotonic()
    made = ask("/v1/files/presign", {"size": len(content), "content_type": "image/png"})
    put = made["upload"]
    request = at_store(put["url"], content, headers=put["headers"], method=put["method"])
    with urllib.request.urlopen(request, timeout=10):
        ask(f"/v1/files/{made['id']}")
    request = urllib.request.Request(f"{URL}/v1/files/{made['id']}/content", headers=AUTHORIZATION)
    try:
        urllib.request.build_opener(NoRedirects).open(request, timeout=10).close()
        sys.exit("the gateway sent the file itself, and no redirect to the object store")
    except urllib.error.HTTPError as redirect:
        with urllib.request.urlopen(at_store(redirect.headers["Location"]), timeout=10) as answer:
            if answer.read() != content:
                sys.exit("the object store returned another file")
    print(f"uploaded   {made['id']} and downloaded it after {time.monotonic() - begin:.3f} s")
    return str(made["id"])


def main() -> None:
    if not RECEIVER:
        sys.exit(
            "error: RECEIVER_URL is not set, and production has no receiver of its own. Give the https URL of yours: "
            "docker compose run --rm -e RECEIVER_URL=https://… smoke"
        )
    wait_for("/v1/models/ocr", "ready", True)
    file = upload(IMAGE.read_bytes())
    begin = time.monotonic()
    job = ask("/v1/jobs", {"model": "ocr", "inputs": {"image": {"file": file}}, "webhook": {"url": RECEIVER}})
    print(f"accepted   {job['id']} after {time.monotonic() - begin:.3f} s")
    job = wait_for(f"/v1/jobs/{job['id']}", "webhook_status", "succeeded", "failed")
    if (job["status"], job["webhook_status"]) != ("succeeded", "succeeded"):
        sys.exit(f"the job is {job['status']} ({job['error']}), its webhook {job['webhook_status']}")
    print(f"verified   by the receiver after {time.monotonic() - begin:.3f} s")
    print(f"outputs    {json.dumps(job['outputs'])[:300]}")
    print(f"trace      {job['trace_id']}")


if __name__ == "__main__":
    try:
        main()
    except urllib.error.HTTPError as error:
        sys.exit(f"error: {error.url} answered {error.code}: {error.read().decode()}")
