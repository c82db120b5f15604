"""A private RabbitMQ with its own port mapper (epmd), separate from every other broker of the machine."""

import os
import re
import shutil
import socket
from pathlib import Path

from deploy.local.command import run
from deploy.local.errors import MissingPrograms
from deploy.local.log import Listener
from deploy.local.ports import HOST
from deploy.local.process import Process
from deploy.local.server import Server

NODE = "charonia@localhost"
WATERMARK = "0.4"  # of the machine's memory; RabbitMQ's default
HEADER = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME = b"\x01"
CONFIGURATION = """\
listeners.tcp.1 = {host}:{port}
log.console = true
log.console.level = warning
log.file = false
disk_free_limit.absolute = 50MB
"""


class RabbitMQ(Server):
    """Listens on loopback only, without plugins. Its data is below `directory`.

    `dist_port` and `epmd_port` are for Erlang; both must be free.
    """

    ready_within = 60.0
    stop_within = 20.0

    def __init__(
        self, directory: Path, port: int, dist_port: int, epmd_port: int, *, on_line: Listener | None = None
    ) -> None:
        self._scripts = find_scripts()
        self._home = directory.absolute() / "rabbitmq"
        self._port = port
        self._env = self._environment(dist_port, epmd_port)
        log = directory.absolute() / "log"
        # Erlang would start epmd as a daemon that stays; this one ends with this process.
        self._epmd = Process(
            "epmd",
            [_epmd(), "-port", str(epmd_port), "-address", HOST],
            env=self._env,
            cwd=Path("/"),
            log=log / "epmd.log",
        )
        self._epmd_port = epmd_port
        self.process = Process(
            "rabbitmq",
            [str(self._scripts / "rabbitmq-server")],
            env=self._env,
            cwd=Path("/"),
            log=log / "rabbitmq.log",
            on_line=on_line,
        )

    @property
    def url(self) -> str:
        """The URL of the default virtual host."""
        return f"amqp://guest:guest@{HOST}:{self._port}/"

    def url_of(self, vhost: str) -> str:
        """Return the URL of another virtual host."""
        return self.url + vhost

    def create_vhost(self, name: str) -> str:
        """Create a virtual host that guest may use, which takes half a second; return its URL."""
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise ValueError(f"invalid name of a virtual host: {name!r}")
        every = '<<".*">>'
        # One eval instead of two commands, because each command starts an Erlang machine.
        self.ctl(
            "eval",
            f'ok = rabbit_vhost:add(<<"{name}">>, <<"charonia">>), ok = rabbit_auth_backend_internal:set_permissions('
            f'<<"guest">>, <<"{name}">>, {every}, {every}, {every}, <<"charonia">>).',
        )
        return self.url_of(name)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with its queues."""
        self.ctl("delete_vhost", name)

    def delete_queue(self, name: str) -> None:
        """Delete a queue of the default virtual host with its messages; consumers are notified."""
        self.ctl("delete_queue", name)

    def close_connections(self) -> None:
        """Close all connections, as an operator may."""
        self.ctl("close_all_connections", "for a test")

    def raise_memory_alarm(self) -> None:
        """Block all publishers, until clear_memory_alarm()."""
        self.ctl("set_vm_memory_high_watermark", "0.00001")

    def clear_memory_alarm(self) -> None:
        """Undo raise_memory_alarm()."""
        self.ctl("set_vm_memory_high_watermark", WATERMARK)

    def ctl(self, *arguments: str, timeout: float = 30.0) -> str:
        """Run rabbitmqctl against this node; return what it prints."""
        return run([str(self._scripts / "rabbitmqctl"), "--quiet", *arguments], timeout=timeout, env=self._env)

    def prepare(self) -> None:
        """Write the configuration and start the port mapper."""
        self._home.mkdir(parents=True, exist_ok=True)
        (self._home / "rabbitmq.conf").write_text(CONFIGURATION.format(host=HOST, port=self._port))
        (self._home / "advanced.config").write_text("[].\n")
        (self._home / "enabled_plugins").write_text("[].\n")
        self._epmd.start()
        self._epmd.wait_ready(self._epmd_answers, timeout=10)

    def probe(self) -> bool:
        """Return whether the broker answers a protocol header with a frame."""
        try:
            with socket.create_connection((HOST, self._port), timeout=1.0) as connection:
                connection.sendall(HEADER)
                return connection.recv(1) == METHOD_FRAME
        except OSError:
            return False

    def stop(self) -> int | None:
        """Stop the broker, then its port mapper."""
        code = super().stop()
        self._epmd.stop()
        return code

    def _epmd_answers(self) -> bool:
        try:
            socket.create_connection((HOST, self._epmd_port), timeout=1.0).close()
        except OSError:
            return False
        return True

    def _environment(self, dist_port: int, epmd_port: int) -> dict[str, str]:
        home = self._home
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(home),  # Erlang's cookie lives here
            "RUNNING_UNDER_SYSTEMD": "true",  # so that the script becomes the server, not its parent
            "RABBITMQ_NODENAME": NODE,
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_DIST_PORT": str(dist_port),
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }


def find_scripts() -> Path:
    """Return the folder of RabbitMQ's own scripts; raise MissingPrograms if there is none.

    The scripts on Debian's PATH are wrappers that change the user and the environment.
    """
    packaged = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    found = packaged[-1] if packaged else shutil.which("rabbitmq-server")
    if found is None:
        raise MissingPrograms("RabbitMQ is not installed (no rabbitmq-server in /usr/lib/rabbitmq nor on PATH)")
    return Path(found).resolve().parent


def _epmd() -> str:
    found = shutil.which("epmd")
    if found is None:
        raise MissingPrograms("Erlang is not installed (no epmd on PATH)")
    return found
