"""A PostgreSQL server under Patroni, which makes it the primary or the synchronous standby."""

import http.client
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from deploy.local.processes.command import run
from deploy.local.processes.process import Process
from deploy.local.servers.account import Account
from deploy.local.servers.postgres import CONNECTIONS, FAST, USER, find_programs
from deploy.local.servers.server import Server
from tests.support.cluster import etcd
from tests.support.cluster.network import Machine

PORT, API_PORT = 5432, 8008
API_SECONDS = 2.0
# A primary that is lost is replaced after `ttl` seconds. Patroni wants loop_wait + 2 * retry_timeout <= ttl.
# Without strict mode, a primary without a standby goes on alone. Patroni first notes in etcd that nobody may take over.
TIMES = {"ttl": 6, "loop_wait": 1, "retry_timeout": 2}
MODES = {"synchronous_mode": True, "failsafe_mode": True}
SHARED = {
    **FAST,
    "full_page_writes": "on",  # pg_rewind needs it
    "max_connections": str(CONNECTIONS),
    "synchronous_commit": "on",
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
    "max_wal_size": "256MB",
}


class Member(msgspec.Struct, frozen=True):
    """A server as Patroni sees it."""

    name: str
    role: str  # leader, sync_standby or replica
    state: str


class _Members(msgspec.Struct, frozen=True):
    members: list[Member]


class PatroniNode(Server):
    ready_within = 60.0

    def __init__(self, machine: Machine, etcds: Sequence[Machine], password: str, log_dir: Path) -> None:
        self.machine = machine
        self.address = machine.address
        self._account = Account.for_postgres()
        self._password = password
        self._home = machine.directory / "postgres"
        self.configuration = self._configure(machine.name, [each.address for each in etcds])
        name = f"patroni-{machine.name}"
        self.process = Process(
            name,
            [*machine.enter, "setpriv", *self._account.options, "patroni", str(self._home / "patroni.json")],
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            cwd=Path("/"),
            log=log_dir / f"{name}.log",
        )

    def prepare(self) -> None:
        self._account.place(self._home)
        file = self._home / "patroni.json"  # JSON is YAML
        file.touch(mode=0o600)
        file.write_text(json.dumps(self.configuration))
        self._account.give(file)

    def probe(self) -> bool:
        """Return whether PostgreSQL runs."""
        return self._call("GET", "/health")[0] == 200

    def list_members(self) -> list[Member]:
        """Return the members as this one knows them; none while it does not answer."""
        status, content = self._call("GET", "/cluster")
        return msgspec.json.decode(content, type=_Members).members if status == 200 else []

    def switch_over(self, leader: str, candidate: str) -> bool:
        """Make the candidate the primary, as an operator would. Return whether Patroni did so."""
        body = {"leader": leader, "candidate": candidate}
        return self._call("POST", "/switchover", body, within=30.0)[0] == 200

    def query(self, statement: str, database: str = "postgres") -> str:
        argv = [str(find_programs() / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1"]
        argv += ["-h", self.address, "-p", str(PORT), "-U", USER, "-d", database, "-c", statement]
        return run(argv, timeout=30, env={"PATH": os.defpath, "PGPASSWORD": self._password}).strip()

    def _call(
        self, method: str, path: str, body: Mapping[str, str] | None = None, within: float = API_SECONDS
    ) -> tuple[int, bytes]:
        """Return the status and the body of a response; the status is 0 without one."""
        try:
            with closing(http.client.HTTPConnection(self.address, API_PORT, timeout=within)) as connection:
                connection.request(method, path, json.dumps(body) if body else None)
                response = connection.getresponse()
                return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""

    def _configure(self, name: str, etcds: Sequence[str]) -> dict[str, Any]:
        address, login = self.address, {"username": USER, "password": self._password}
        return {
            "scope": "charonia",
            "name": name,
            "restapi": {"listen": f"{address}:{API_PORT}", "connect_address": f"{address}:{API_PORT}"},
            # Debian 12's Patroni 3.0.2 loses commits with the v3 API: a primary that was frozen takes its key back from
            # its successor (https://github.com/patroni/patroni/pull/2689).
            "etcd": {"hosts": [f"{each}:{etcd.CLIENT_PORT}" for each in etcds]},
            "bootstrap": {
                "dcs": {**TIMES, **MODES, "postgresql": {"use_pg_rewind": True, "parameters": SHARED}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync"],
            },
            "postgresql": {
                "listen": f"{address}:{PORT}",
                "connect_address": f"{address}:{PORT}",
                "bin_dir": str(find_programs()),
                "data_dir": str(self._home / "data"),
                "pgpass": str(self._home / "pgpass"),
                "authentication": {"superuser": login, "replication": login, "rewind": login},
                "pg_hba": ["host all all 0.0.0.0/0 scram-sha-256", "host replication all 0.0.0.0/0 scram-sha-256"],
                "parameters": {"unix_socket_directories": ""},
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
                "basebackup": [{"checkpoint": "fast"}],
            },
        }
