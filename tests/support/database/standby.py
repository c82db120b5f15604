"""A streaming standby of a private PostgreSQL server."""

import os
from pathlib import Path

from deploy.local.processes.command import run
from deploy.local.processes.ports import HOST
from deploy.local.servers.postgres import USER, Postgres

NAME = "standby"  # as the primary knows it


class Standby(Postgres):
    """Copies its primary when it starts, then follows it."""

    def __init__(self, primary: Postgres, directory: Path, port: int) -> None:
        super().__init__(directory, port, durable=False)
        self._primary = primary
        self._password = primary._password

    def prepare(self) -> None:
        """Copy the primary, which runs, unless there is a copy."""
        if self._data.exists():
            return
        source = f"host={HOST} port={self._primary._port} user={USER} application_name={NAME}"
        options = ["--pgdata", str(self._data), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        argv = ["setpriv", *self._account.options, str(self._bin / "pg_basebackup"), "--dbname", source, *options]
        env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "PGPASSWORD": self._password}
        run(argv if self._account.options else argv[1:], timeout=60, env=env)

    def greet(self) -> None:
        """Leave its databases to the primary."""
