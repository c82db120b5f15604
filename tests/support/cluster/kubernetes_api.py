"""A small API server of Kubernetes, over HTTPS: it keeps the annotations of pods, and nothing else."""

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import msgspec

from tests.support.receivers.certificate_authority import Authority
from tests.support.receivers.threaded_server import HOST, Server

NAMESPACE = "inference"
TOKEN = "token-of-the-pod"
MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class Patch:
    path: str
    headers: Mapping[str, str]
    body: bytes


class KubernetesApi:
    """Answers 200 with the right token, or what `status` says. It hangs while `frozen` is set."""

    def __init__(self, folder: Path) -> None:
        """Write the files of a service account below `folder`."""
        self.status = 200
        self.token = TOKEN
        self.patches: list[Patch] = []
        self.annotations: dict[str, dict[str, str]] = {}  # by pod
        self.frozen = threading.Event()
        self._thawed = threading.Event()
        authority = Authority(folder)
        self.account = folder / "serviceaccount"
        self.account.mkdir()
        (self.account / "ca.crt").write_bytes(authority.path.read_bytes())
        (self.account / "namespace").write_text(NAMESPACE)
        self.write_token(TOKEN)
        self._server = Server((HOST, 0), make_handler(self))
        self._server.socket = authority.serve().wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """What Kubernetes sets in each container."""
        return {"KUBERNETES_SERVICE_HOST": HOST, "KUBERNETES_SERVICE_PORT": str(self._server.server_address[1])}

    def write_token(self, token: str) -> None:
        (self.account / "token").write_text(token + "\n")

    def patch(self, patch: Patch) -> tuple[int, bytes]:
        """Apply a merge patch of a pod's annotations. Return the answer."""
        self.patches.append(patch)
        if self.frozen.is_set():
            self._thawed.wait()
        if patch.headers.get("authorization") != f"Bearer {self.token}":
            return 401, b'{"message": "Unauthorized"}'
        if patch.headers.get("content-type") != MERGE:
            return 415, b'{"message": "the body of the request was in an unknown format"}'
        if self.status != 200:
            return self.status, b'{"message": "pods is forbidden"}'
        pod = patch.path.removeprefix(f"/api/v1/namespaces/{NAMESPACE}/pods/")
        annotations = msgspec.json.decode(patch.body)["metadata"]["annotations"]
        self.annotations.setdefault(pod, {}).update(annotations)
        return 200, b"{}"

    def close(self) -> None:
        self._thawed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def make_handler(api: KubernetesApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PATCH(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = api.patch(Patch(self.path, headers, body))
            with contextlib.suppress(OSError):  # the client did not wait
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.send_header("connection", "close")
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Log nothing."""

    return Handler
