"""Runs the stacks of benchmarks/peers on the servers of a private stack."""

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from common.security import webhook_signatures
from deploy.local.install import STAMP, Step, make_venv, run_steps
from deploy.local.processes.ports import HOST, free_ports
from deploy.local.processes.process import Process
from deploy.local.servers.http import answers_200
from deploy.local.servers.server import Server
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT
from deploy.local.stack import Stack

SOURCE = ROOT / "benchmarks" / "peers"
VENV = ROOT / ".charonia" / "peers-venv"
INSTALL_SECONDS = 60
API = ["--loop=uvloop", "--http=httptools", "--no-access-log", f"--host={HOST}"]


class Peer(NamedTuple):
    """A stack of an API and a worker. Its name is that of its figures, its database and its virtual host."""

    name: str
    app: str
    worker: Sequence[str]
    concurrency: int  # tasks of the worker at a time


CELERY = Peer(
    "celery",
    "benchmarks.peers.celery_fastapi.api:app",
    [
        *("celery", "--quiet", "--app=benchmarks.peers.celery_fastapi.app", "worker", "--pool=threads"),
        *("--loglevel=WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat", "--concurrency=16"),
    ],
    16,  # threads: quicker than 8 or 32, and than processes, which pay for passing tasks on
)
TASKIQ = Peer(
    "taskiq",
    "benchmarks.peers.taskiq_litestar.api:app",
    [
        *("taskiq", "worker", "benchmarks.peers.taskiq_litestar.tasks:broker", "--workers=1"),
        *("--log-level=WARNING", "--max-async-tasks=128"),
    ],
    128,
)
PEERS = (CELERY, TASKIQ)


class PeerProcess(Server):
    """The API, which has a port, or the worker. The load that warms up waits for the worker."""

    def __init__(
        self, name: str, arguments: Sequence[str], port: int | None, env: Mapping[str, str], log_dir: Path
    ) -> None:
        self._port = port
        argv = [str(VENV / "bin" / "python"), "-m", *arguments]
        self.process = Process(name, argv, env=env, cwd=ROOT, log=log_dir / f"{name}.log")

    def probe(self) -> bool:
        return self._port is None or answers_200(self._port, "/readyz")


def install() -> None:
    """Install the packages of the peers if need be."""
    requirements, stamp = SOURCE / "requirements.txt", VENV / STAMP
    if not stamp.exists() or stamp.stat().st_mtime < requirements.stat().st_mtime:
        details = f" into {VENV.relative_to(ROOT)}"
        packages = functools.partial(make_venv, VENV, requirements, client=False)
        run_steps([Step("the peers", INSTALL_SECONDS, details, packages)])


def open_peer(stack: Stack, peer: Peer) -> tuple[list[Server], int]:
    """Make the database and virtual host of an installed peer. Return its processes and its API's port."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "DATABASE_URL": stack.postgres.create_database(peer.name),
        "BROKER_URL": stack.rabbitmq.create_vhost(peer.name),
        "TRITON_URL": stack.triton.grpc_address,
        "API_KEY": DEVELOPMENT_KEY,
        "WEBHOOK_SECRET": webhook_signatures.new_secret("hmac"),
        "CONCURRENCY": str(peer.concurrency),
    }
    stack.postgres.query((SOURCE / "schema.sql").read_text(), peer.name)
    (port,) = free_ports(1)
    return [
        PeerProcess(
            f"{peer.name} api", ["uvicorn", peer.app, *API, f"--port={port}"], port, environment, stack.log_dir
        ),
        PeerProcess(f"{peer.name} worker", peer.worker, None, environment, stack.log_dir),
    ], port
