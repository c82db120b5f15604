"""A private PostgreSQL server."""

import os
import re
import secrets
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from deploy.local.errors import MissingPrograms
from deploy.local.installation import USR
from deploy.local.processes.command import run, succeeds
from deploy.local.processes.log import Listener
from deploy.local.processes.ports import HOST
from deploy.local.processes.process import Process
from deploy.local.servers.account import Account
from deploy.local.servers.server import Server

DATABASE = USER = "charonia"
CONNECTIONS = 200
PASSWORD = "password"  # noqa: S105 - the name of the file
ROLES = ("gateway", "dispatcher", "notifier", "operator")  # of the schema: see common/postgres/roles.py
# A killed server loses no commit, because the system has them. It keeps little WAL, because tests run many servers.
FAST = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}


_OWN_URL = re.compile(rf"postgresql://{USER}:([^@]+)@{re.escape(HOST)}:")  # of a server of this module


class Postgres(Server):
    """Listens on loopback only, with a generated password. Its data is below `directory`.

    With `durable=False`, for tests, data survives kill -9 of the server, but no crash of the machine. `environment`
    and `options`, which win, are for the server only.
    """

    def __init__(
        self,
        directory: Path,
        port: int,
        *,
        durable: bool = True,
        environment: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        on_line: Listener | None = None,
    ) -> None:
        self._bin = find_programs()
        self._port = port
        self._durable = durable
        self._account = Account.for_postgres()
        self._wanted = directory.absolute() / "postgres"
        self._home = self._account.place(self._wanted)
        self._data = self._home / "data"
        self._password = self._remembered_password()
        settings = {
            "listen_addresses": HOST,
            "port": str(port),
            "max_connections": str(CONNECTIONS),
            "unix_socket_directories": "",  # not needed, and their path may have 107 bytes at most
        }
        settings |= ({} if durable else FAST) | dict(options or {})
        self.process = Process(
            "postgres",
            [
                *(["env", *(f"{key}={value}" for key, value in environment.items())] if environment else []),
                str(self._bin / "postgres"),
                "-D",
                str(self._data),
                *(f"--{key}={value}" for key, value in settings.items()),
            ],
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            cwd=Path("/"),
            log=directory / "log" / "postgres.log",
            stop_signal=signal.SIGINT,  # "fast": ends sessions instead of waiting for them
            identity=self._account.options,
            on_line=on_line,
        )

    @property
    def url(self) -> str:
        """The URL of the database `charonia`, with the password."""
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        """Return the URL of another database."""
        return f"postgresql://{USER}:{self._password}@{HOST}:{self._port}/{database}"

    def create_database(self, name: str, template: str = "template0") -> str:
        """Create a database as a copy of an idle one; return its URL."""
        self.query(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Drop a database and end its sessions."""
        self.query(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def query(self, statement: str, database: str = "postgres") -> str:
        """Run one statement with psql; return its rows, with columns separated by |."""
        target = ["-h", HOST, "-p", str(self._port), "-U", USER, "-d", database]
        argv = [str(self._bin / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", *target, "-c", statement]
        env = {"PATH": os.defpath, "PGPASSWORD": self._password, "PGCONNECT_TIMEOUT": "5"}
        return run(argv, timeout=30, env=env).strip()

    def close_connections(self) -> None:
        """End all other sessions, as an operator may."""
        self.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def set_read_only(self, on: bool) -> None:
        """Refuse writes in every session, as a standby does after a failover."""
        self.query(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if on else 'off'}")
        self.query("SELECT pg_reload_conf()")
        self.query("SELECT 1")  # a new session: the server answers it after it has told all others

    def delete(self) -> None:
        """Stop it and delete its data, which may be outside the stack's directory (see account.py)."""
        self.stop()
        self._account.remove(self._wanted)

    def prepare(self) -> None:
        """Create the database cluster, unless there is one."""
        if self._data.exists():
            return
        fresh = self._home / "data.new"  # renamed when complete, because initdb may be interrupted
        shutil.rmtree(fresh, ignore_errors=True)
        options = ["-U", USER, f"--pwfile={self._home / PASSWORD}", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C"]
        options += [] if self._durable else ["--no-sync"]
        argv = ["setpriv", *self._account.options, str(self._bin / "initdb"), "-D", str(fresh), *options]
        run(
            argv if self._account.options else argv[1:],
            timeout=60,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        )
        fresh.rename(self._data)

    def probe(self) -> bool:
        """Return whether it accepts connections."""
        return succeeds([str(self._bin / "pg_isready"), "-q", "-h", HOST, "-p", str(self._port), "-t", "1"], timeout=2)

    def greet(self) -> None:
        """Create the database `charonia`, unless there is one."""
        if not self.query(f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'"):  # noqa: S608 - a constant
            self.create_database(DATABASE)

    def _remembered_password(self) -> str:
        file = self._home / PASSWORD
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(secrets.token_urlsafe(24))
            self._account.give(file)
        return file.read_text()


def connect_as(role: str, url: str) -> str:
    """Return the URL of a private server's database for a role; the URL of any other server as it is."""
    return _OWN_URL.sub(rf"postgresql://{USER}_{role}:\1@{HOST}:", url)


def role_passwords(url: str) -> str:
    """Return the roles' passwords as the command that migrates takes them: all are the owner's."""
    found = _OWN_URL.match(url)
    return ",".join(f"{role}={found[1]}" for role in ROLES) if found else ""


def find_programs() -> Path:
    """Return the folder of the newest PostgreSQL's programs; raise MissingPrograms if there are none."""
    packaged = sorted((USR / "lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if packaged:
        return packaged[-1].parent
    found = shutil.which("initdb")
    if found is None:
        raise MissingPrograms(f"PostgreSQL is not installed (no initdb in {USR}/lib/postgresql/*/bin nor on PATH)")
    return Path(found).resolve().parent
