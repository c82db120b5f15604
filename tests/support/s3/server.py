"""The two processes of the S3 server."""

import os
import re
import sys
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path

from deploy.local.processes.ports import HOST
from deploy.local.processes.process import Process
from deploy.local.servers.http import answers_200
from deploy.local.servers.server import Server
from deploy.local.settings import ROOT
from tests.support.s3 import HEALTH

ACCESS_KEY = "test-access-key"
SECRET_KEY = "test-secret-key"
SOMEBODY = "AWS4-HMAC-SHA256 Credential=x/20261122/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"


class S3(Server):
    """Speaks S3 over HTTP on loopback. Objects are in the memory of moto's process, and gone when it stops.

    Freezing it, or killing it, is done to the proxy: the objects stay.
    """

    ready_within = 60.0

    def __init__(self, directory: Path, port: int, moto_port: int) -> None:
        self._port = port
        self._moto_port = moto_port
        env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        log = directory.absolute() / "log"
        self._moto = Process(
            "moto",
            [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(moto_port)],
            env=env,
            cwd=ROOT,
            log=log / "moto.log",
        )
        self.process = Process(
            "s3",
            [sys.executable, "-m", "tests.support.s3.proxy", str(port), str(moto_port), ACCESS_KEY, SECRET_KEY],
            env=env,
            cwd=ROOT,
            log=log / "s3.log",
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which clients find this server."""
        return {
            "AWS_ENDPOINT_URL": f"http://{HOST}:{self._port}",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
        }

    def create_bucket(self, name: str) -> None:
        self._ask_moto("PUT", f"/{name}")

    def archive(self, bucket: str, key: str) -> None:
        """Make an object unreadable (403) while others can be read: it is empty, and in an archive."""
        self._ask_moto("PUT", f"/{bucket}/{key}", {"x-amz-storage-class": "GLACIER", "Authorization": SOMEBODY})

    def list_keys(self, bucket: str) -> list[str]:
        return re.findall(r"<Key>(.*?)</Key>", self._ask_moto("GET", f"/{bucket}?list-type=2"))

    def list_uploads(self, bucket: str) -> list[str]:
        """Return the keys of multipart uploads that are neither completed nor aborted."""
        return re.findall(r"<Key>(.*?)</Key>", self._ask_moto("GET", f"/{bucket}?uploads"))

    def prepare(self) -> None:
        self._moto.start()

    def probe(self) -> bool:
        return answers_200(self._moto_port, HEALTH) and answers_200(self._port, HEALTH)

    def stop(self) -> int | None:
        """Stop both, and return the exit code of the proxy."""
        code = super().stop()
        self._moto.stop()
        return code

    def _ask_moto(self, method: str, path: str, headers: Mapping[str, str] | None = None) -> str:
        """Return what moto answers to a call that is not signed."""
        connection = HTTPConnection(HOST, self._moto_port, timeout=10.0)
        try:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            text = response.read().decode()
            assert response.status == 200, text
            return text
        finally:
            connection.close()
