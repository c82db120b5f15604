"""A private RabbitMQ with its own port mapper (epmd), separate from every other broker of the machine."""

import os
import re
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from deploy.local.errors import MissingPrograms
from deploy.local.installation import USR
from deploy.local.processes.command import run
from deploy.local.processes.log import Listener
from deploy.local.processes.ports import HOST
from deploy.local.processes.process import Process
from deploy.local.servers.server import Server

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
# A bare system has no /etc/hosts, which names the node's machine.
NAMES = '{host, {127, 0, 0, 1}, ["localhost"]}.\n{lookup, [file, native]}.\n'


class RabbitMQ(Server):
    """Listens on loopback only, or on `address`, without plugins. Its data is below `directory`.

    `dist_port` and `epmd_port` are for Erlang; both must be free. `wrapper` is a command that runs each program.
    `configuration` has more lines for rabbitmq.conf, and `advanced` is Erlang's own configuration.
    """

    ready_within = 60.0
    stop_within = 20.0

    def __init__(
        self,
        directory: Path,
        port: int,
        dist_port: int,
        epmd_port: int,
        *,
        name: str = "rabbitmq",
        address: str = HOST,
        wrapper: Sequence[str] = (),
        configuration: str = "",
        advanced: str = "[].",
        cookie: str | None = None,
        log_dir: Path | None = None,
        on_line: Listener | None = None,
    ) -> None:
        self._scripts = find_scripts()
        self._home = directory.absolute() / "rabbitmq"
        self._port = port
        self._address = address
        self._wrapper = wrapper
        self._configuration = CONFIGURATION.format(host=address, port=port) + configuration
        self._advanced = advanced
        self._cookie = cookie
        self.node = f"charonia@{'localhost' if address == HOST else address}"
        self._env = self._environment(dist_port, epmd_port)
        log = log_dir or directory.absolute() / "log"
        # Erlang would start epmd as a daemon that stays; this one ends with this process.
        self._epmd = Process(
            "epmd",
            [*wrapper, _epmd(), "-port", str(epmd_port), "-address", address],
            env=self._env,
            cwd=Path("/"),
            log=log / f"{name}-epmd.log",
        )
        self._epmd_port = epmd_port
        self.process = Process(
            name,
            [*wrapper, str(self._scripts / "rabbitmq-server")],
            env=self._env,
            cwd=Path("/"),
            log=log / f"{name}.log",
            on_line=on_line,
        )

    @property
    def url(self) -> str:
        """The URL of the default virtual host."""
        return f"amqp://guest:guest@{self._address}:{self._port}/"

    def url_of(self, vhost: str) -> str:
        """Return the URL of another virtual host."""
        return self.url + vhost

    def create_vhost(self, name: str) -> str:
        """Create a virtual host that guest may use, which takes half a second; return its URL."""
        return self.create_vhosts([name])[0]

    def create_vhosts(self, names: Sequence[str]) -> list[str]:
        """Create virtual hosts that guest may use, which takes hardly longer than one; return their URLs."""
        for name in names:
            if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
                raise ValueError(f"invalid name of a virtual host: {name!r}")
        every, listed = '<<".*">>', ", ".join(f'<<"{name}">>' for name in names)
        # One eval instead of two commands for each, because each command starts an Erlang machine.
        self.ctl(
            "eval",
            '[begin ok = rabbit_vhost:add(Name, <<"charonia">>), ok = rabbit_auth_backend_internal:set_permissions('
            f'<<"guest">>, Name, {every}, {every}, {every}, <<"charonia">>) end || Name <- [{listed}]].',
        )
        return [self.url_of(name) for name in names]

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
        argv = [*self._wrapper, str(self._scripts / "rabbitmqctl"), "--quiet", *arguments]
        return run(argv, timeout=timeout, env=self._env)

    def prepare(self) -> None:
        """Write the configuration and start the port mapper."""
        self._home.mkdir(parents=True, exist_ok=True)
        (self._home / "rabbitmq.conf").write_text(self._configuration)
        (self._home / "advanced.config").write_text(self._advanced + "\n")
        (self._home / "enabled_plugins").write_text("[].\n")
        (self._home / "inetrc").write_text(NAMES)
        if self._cookie is not None:
            self._write_cookie(self._cookie)
        self._show_plugins()
        self._epmd.start()
        self._epmd.wait_ready(self._epmd_answers, timeout=10)

    def _show_plugins(self) -> None:
        """Show the server nothing but itself among its plugins. It reads all that it sees, for two seconds of CPU."""
        folder = self._home / "plugins"
        folder.mkdir(exist_ok=True)
        for plugin in (self._scripts.parent / "plugins").glob("rabbit-*"):
            link = folder / plugin.name
            link.unlink(missing_ok=True)
            link.symlink_to(plugin)

    def _write_cookie(self, cookie: str) -> None:
        file = self._home / ".erlang.cookie"
        file.unlink(missing_ok=True)  # Erlang wants it to be read-only
        file.touch(mode=0o400)
        file.write_text(cookie)

    def probe(self) -> bool:
        """Return whether the broker answers a protocol header with a frame."""
        try:
            with socket.create_connection((self._address, self._port), timeout=1.0) as connection:
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
            socket.create_connection((self._address, self._epmd_port), timeout=1.0).close()
        except OSError:
            return False
        return True

    def _environment(self, dist_port: int, epmd_port: int) -> dict[str, str]:
        home, interface = self._home, "{" + self._address.replace(".", ",") + "}"
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(home),  # Erlang's cookie lives here
            "RUNNING_UNDER_SYSTEMD": "true",  # so that the script becomes the server, not its parent
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_USE_LONGNAME": "false" if self._address == HOST else "true",
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_PLUGINS_DIR": str(home / "plugins"),
            "RABBITMQ_DIST_PORT": str(dist_port),
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": self._address,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {interface}",
        } | ({"ERL_INETRC": str(home / "inetrc")} if self._address == HOST else {})


def find_scripts() -> Path:
    """Return the folder of RabbitMQ's own scripts; raise MissingPrograms if there is none.

    The scripts on Debian's PATH are wrappers that change the user and the environment.
    """
    packaged = sorted((USR / "lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    found = packaged[-1] if packaged else shutil.which("rabbitmq-server")
    if found is None:
        raise MissingPrograms(f"RabbitMQ is not installed (no rabbitmq-server in {USR}/lib/rabbitmq nor on PATH)")
    return Path(found).resolve().parent


def _epmd() -> str:
    found = shutil.which("epmd")
    if found is None:
        raise MissingPrograms("Erlang is not installed (no epmd on PATH)")
    return found
