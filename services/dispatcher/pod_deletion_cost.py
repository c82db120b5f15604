"""Tells Kubernetes how many jobs this pod runs, so that scaling in removes idle pods first.

A ReplicaSet deletes the ready pods with the lowest annotation `controller.kubernetes.io/pod-deletion-cost` first. Each
change of it is a write to the API server and an event for all who watch the pod. So it changes rarely.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from common.errors import CharoniaError, SettingsError
from common.telemetry.logs import Log
from common.telemetry.outage import Outage

ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
INTERVAL_SECONDS = 10.0  # between writes; an autoscaler decides every 15 s, and scales in after minutes
RETRY_SECONDS = 60.0  # after a failure, which may be lasting, such as a missing right
DEADLINE_SECONDS = 5.0  # of one write
MAX_MESSAGE = 200  # characters of an answer in the log

log = Log("pod")


class NotPatched(CharoniaError):
    """The API server refused to change the pod."""


class Pod:
    """A pod as its own processes reach it: with the token of their service account."""

    def __init__(self, name: str, account: Path, server: str) -> None:
        """`account` is the folder with the files `token`, `ca.crt` and `namespace`."""
        self.name = name
        self._account = account
        self._server = server

    @classmethod
    def find(cls, name: str, account: str, environ: Mapping[str, str]) -> "Pod":
        """Return this pod. Raise SettingsError outside of Kubernetes, which sets the address of its API server."""
        host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise SettingsError(
                "CHARONIA_POD_NAME is set, but KUBERNETES_SERVICE_HOST is not, so this is no pod. Remove the first."
            )
        return cls(name, Path(account), f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")

    async def annotate(self, key: str, value: str) -> None:
        """Set an annotation. Raise NotPatched, httpx.HTTPError, OSError or ValueError."""
        client, path = self._connect()
        async with client, asyncio.timeout(DEADLINE_SECONDS):  # of all steps together
            response = await client.patch(path, json={"metadata": {"annotations": {key: value}}})
        if not response.is_success:
            raise NotPatched(f"{response.status_code} {response.text[:MAX_MESSAGE]}")

    def _connect(self) -> tuple[httpx.AsyncClient, str]:
        """Return a client and the pod's path. The files are read each time, because Kubernetes renews them."""
        token, namespace = (
            (self._account / file).read_text(errors="replace").strip() for file in ("token", "namespace")
        )
        if not (token.isascii() and token.isprintable()):
            raise ValueError("the token is no text")  # the errors of libraries would show it
        headers = {"authorization": f"Bearer {token}", "content-type": "application/merge-patch+json"}
        tls = ssl.create_default_context(cafile=self._account / "ca.crt")
        client = httpx.AsyncClient(
            base_url=self._server, headers=headers, verify=tls, timeout=DEADLINE_SECONDS, trust_env=False
        )
        return client, f"/api/v1/namespaces/{namespace}/pods/{self.name}"


class PodDeletionCost:
    """Keeps a pod's deletion cost at the number of its running jobs. A failure changes nothing else."""

    def __init__(self, pod: Pod, count_jobs: Callable[[], int], *, interval: float = INTERVAL_SECONDS) -> None:
        """`interval` is in seconds."""
        self._pod = pod
        self._count_jobs = count_jobs
        self._interval = interval
        self._written: int | None = None  # a process that died in this pod may have left any value
        self._outage = Outage()

    async def run(self) -> None:
        """Write the cost when it has changed, at most once in each interval, until cancelled."""
        while True:
            pause = self._interval
            if (cost := self._count_jobs()) != self._written:
                pause = self._interval if await self._write(cost) else max(RETRY_SECONDS, self._interval)
            await asyncio.sleep(pause)

    async def _write(self, cost: int) -> bool:
        try:
            await self._pod.annotate(ANNOTATION, str(cost))
        except (NotPatched, httpx.HTTPError, OSError, ValueError) as error:
            if self._outage.begin():
                log.warning("pod.cost_not_written", pod=self._pod.name, error=repr(error))
            return False
        self._written = cost
        self._outage.end()
        return True
