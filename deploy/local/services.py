"""Charonia's services, as processes that are configured by their environment."""

import base64
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from deploy.local.processes.log import Listener
from deploy.local.processes.ports import HOST
from deploy.local.processes.process import Process
from deploy.local.servers.http import answers_200
from deploy.local.servers.postgres import connect_as, role_passwords
from deploy.local.servers.server import Server
from deploy.local.settings import ROOT

DEVELOPMENT_KEY = "ch_dev"
MIGRATION_SECONDS = 120.0
REPOSITORY_KEY = "CHARONIA_TRITON_REPOSITORY_KEY"
DEVELOPMENT = {
    "CHARONIA_DEVELOPMENT": "1",  # it allows the key that everybody knows
    "CHARONIA_HOST": HOST,
    "CHARONIA_BOOTSTRAP_KEY": DEVELOPMENT_KEY,
    # For receivers on the same machine, without TLS. Not for production.
    "CHARONIA_WEBHOOK_NETWORKS": "127.0.0.0/8,::1/128",
    "CHARONIA_WEBHOOK_HTTP": "true",
    "CHARONIA_INPUT_HTTP": "true",
    "CHARONIA_LOG_FORMAT": "text",  # read on a terminal, though they pass through a file
    "CHARONIA_SHUTDOWN_DELAY": "0",  # there is no load balancer to wait for
}


class Installation(NamedTuple):
    """A version of Charonia that can be started: its files, and the Python that has its libraries."""

    tree: Path = ROOT
    python: str = sys.executable


OWN = Installation()


class Service(Server):
    """One instance of a service; `kind` is gateway, dispatcher or notifier.

    It listens on `address`. `wrapper` is put before its command.
    """

    ready_within = 60.0
    stop_within = 30.0  # its own grace is 25

    def __init__(
        self,
        kind: str,
        port: int,
        environment: Mapping[str, str],
        log_dir: Path,
        *,
        name: str | None = None,
        address: str = HOST,
        wrapper: Sequence[str] = (),
        on_line: Listener | None = None,
        installation: Installation = OWN,
    ) -> None:
        self.kind = kind
        self.port = port
        self.address = address
        self.url = f"http://{address}:{port}"
        env = {"OTEL_SERVICE_NAME": f"charonia-{kind}"} | dict(environment) | {"CHARONIA_PORT": str(port)}
        env |= {} if address == HOST else {"CHARONIA_HOST": address}
        env["CHARONIA_DATABASE_URL"] = connect_as(kind, env["CHARONIA_DATABASE_URL"])
        self._name = name or kind
        self._wrapper = wrapper
        self._env = env
        self._log = log_dir / f"{self._name}.log"
        self._on_line = on_line
        self.process = self._prepare(installation)

    def install(self, installation: Installation) -> None:
        """Run this installation from the next start on. It must not be running."""
        self.process = self._prepare(installation)

    def probe(self) -> bool:
        """Return whether the service says that it is ready."""
        return answers_200(self.port, "/readyz", self.address)

    def _prepare(self, installation: Installation) -> Process:
        command = [*self._wrapper, installation.python, "-m", f"services.{self.kind}"]
        return Process(self._name, command, env=self._env, cwd=installation.tree, log=self._log, on_line=self._on_line)


def migrate(
    environment: Mapping[str, str],
    log_dir: Path,
    on_line: Listener | None = None,
    installation: Installation = OWN,
) -> None:
    """Migrate the database; raise ProcessDied, with the end of the log, if that fails."""
    process = Process(
        "migrate",
        [installation.python, "-m", "common.postgres.migrate"],
        env={"CHARONIA_ROLE_PASSWORDS": role_passwords(environment["CHARONIA_DATABASE_URL"])} | dict(environment),
        cwd=installation.tree,
        log=log_dir / "migrate.log",
        on_line=on_line,
    )
    process.start()
    try:
        if process.wait_exit(MIGRATION_SECONDS) != 0:
            process.check()  # which raises, with the end of the log
    finally:
        process.stop()


def environment_for(
    database_url: str,
    amqp_url: str,
    triton_address: str,
    public_url: str,
    stack_dir: Path,
    passed: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment of every service; variables that the caller `passed` win."""
    system = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ", "SSL_CERT_FILE") if name in os.environ}
    connections = {
        "CHARONIA_DATABASE_URL": database_url,
        "CHARONIA_AMQP_URL": amqp_url,
        "CHARONIA_TRITON_URL": triton_address,
        REPOSITORY_KEY: repository_key(stack_dir),
        "CHARONIA_PUBLIC_URL": public_url,
        "CHARONIA_ENCRYPTION_KEYS": encryption_key(stack_dir),
        "CHARONIA_URL_KEYS": url_key(stack_dir),
        "CHARONIA_STORE_URL": (stack_dir.absolute() / "store").as_uri(),
    }
    return system | {"PYTHONUNBUFFERED": "1"} | DEVELOPMENT | connections | dict(passed)


def encryption_key(stack_dir: Path) -> str:
    """Return the stack's Fernet key. Without it, the secrets in the database are lost."""
    return _remembered_key(stack_dir / "encryption.key")


def url_key(stack_dir: Path) -> str:
    """Return the key that signs the URLs of outputs."""
    return _remembered_key(stack_dir / "url.key")


def repository_key(stack_dir: Path) -> str:
    """Return the key with which Triton loads models."""
    return _remembered_key(stack_dir / "triton.key")


def _remembered_key(file: Path) -> str:
    """Return the random key of a file, which is created once."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")  # renamed when complete, because half a key is useless
        fresh.unlink(missing_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text(base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
        fresh.rename(file)
    return file.read_text().strip()
