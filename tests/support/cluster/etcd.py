"""A member of an etcd cluster, in which Patroni keeps who the primary is."""

import http.client
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from deploy.local.processes.process import Process
from deploy.local.servers.server import Server
from tests.support.cluster.network import Machine

CLIENT_PORT, PEER_PORT = 2379, 2380


class Etcd(Server):
    def __init__(self, machine: Machine, members: Sequence[Machine], log_dir: Path) -> None:
        self._address = machine.address
        client, peer = f"http://{machine.address}:{CLIENT_PORT}", f"http://{machine.address}:{PEER_PORT}"
        options = {
            "name": machine.name,
            "data-dir": str(machine.directory / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(f"{each.name}=http://{each.address}:{PEER_PORT}" for each in members),
            "log-level": "warn",
            "enable-v2": "true",  # for Patroni: patroni.py says why
        }
        name = f"etcd-{machine.name}"
        self.process = Process(
            name,
            [*machine.enter, "etcd", *(f"--{key}={value}" for key, value in options.items())],
            env={"PATH": os.environ.get("PATH", os.defpath)},
            cwd=Path("/"),
            log=log_dir / f"{name}.log",
        )

    def probe(self) -> bool:
        """Return whether it answers with a leader."""
        try:
            with closing(http.client.HTTPConnection(self._address, CLIENT_PORT, timeout=1.0)) as connection:
                connection.request("GET", "/health")
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
