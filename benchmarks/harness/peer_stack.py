"""Runs the Celery + FastAPI stack of benchmarks/peers on the servers of a private stack."""

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.security import webhook_signatures
from deploy.local.install import STAMP, Step, make_venv, run_steps
from deploy.local.processes.ports import HOST, free_ports
from deploy.local.processes.process import Process
from deploy.local.servers.http import answers_200
from deploy.local.servers.server import Server
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT
from deploy.local.stack import Stack

NAME = "peer"  # of its database and its virtual host
SOURCE = ROOT / "benchmarks" / "peers"
VENV = ROOT / ".charonia" / "peers-venv"
INSTALL_SECONDS = 60
CONCURRENCY = 16  # threads of the worker: quicker than 8 or 32, and than processes, which pay for passing tasks on
API = ["uvicorn", "benchmarks.peers.api:app", "--loop=uvloop", "--http=httptools", "--no-access-log", f"--host={HOST}"]
WORKER = ["celery", "--quiet", "--app=benchmarks.peers.celery_app", "worker", "--pool=threads", "--loglevel=WARNING"]
WORKER += [f"--concurrency={CONCURRENCY}", "--without-gossip", "--without-mingle", "--without-heartbeat"]


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


def open_peer(stack: Stack) -> tuple[list[Server], int]:
    """Install the peer if need be, and make its database and virtual host; return its processes and its API's port."""
    requirements, stamp = SOURCE / "requirements.txt", VENV / STAMP
    if not stamp.exists() or stamp.stat().st_mtime < requirements.stat().st_mtime:
        details = f" into {VENV.relative_to(ROOT)}"
        install = functools.partial(make_venv, VENV, requirements, client=False)
        run_steps([Step("Celery and FastAPI", INSTALL_SECONDS, details, install)])
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "DATABASE_URL": stack.postgres.create_database(NAME),
        "BROKER_URL": stack.rabbitmq.create_vhost(NAME),
        "TRITON_URL": stack.triton.grpc_address,
        "API_KEY": DEVELOPMENT_KEY,
        "WEBHOOK_SECRET": webhook_signatures.new_secret("hmac"),
        "CONCURRENCY": str(CONCURRENCY),
    }
    stack.postgres.query((SOURCE / "schema.sql").read_text(), NAME)
    (port,) = free_ports(1)
    return [
        PeerProcess("peer api", [*API, f"--port={port}"], port, environment, stack.log_dir),
        PeerProcess("peer worker", WORKER, None, environment, stack.log_dir),
    ], port
