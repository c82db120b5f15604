"""A private Docker engine, with its data and socket in a folder; the machine's own engine is not used."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

from deploy.compose.rehearsal.mounts import unmount_below
from deploy.local.errors import LocalError, NotReady
from deploy.local.processes.command import run

NETWORKS = "172.28.0.0/16"
HOST = "172.28.0.1"  # as containers see it: in the first of those networks
PACKAGES = ("docker.io", "debootstrap", "iptables")
START_SECONDS = 60.0
STOP_SECONDS = 60.0


class Engine:
    """A context manager that runs the engine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()  # runc takes no symbolic link
        self.socket = self.directory / "docker.sock"
        self.env = {**os.environ, "DOCKER_HOST": f"unix://{self.socket}", "DOCKER_BUILDKIT": "0"}
        self.process: subprocess.Popen[bytes] | None = None

    def docker(self, *argv: str, timeout: float = 120.0) -> str:
        """Run a command of the Docker client; return what it prints, or raise CommandFailed."""
        return run(["docker", *argv], timeout=timeout, env=self.env).strip()

    def __enter__(self) -> "Engine":
        self.directory.mkdir(parents=True, exist_ok=True)
        unmount_below(self.directory)  # of an engine that was killed
        argv = ["/usr/sbin/dockerd", "-H", self.env["DOCKER_HOST"], "--pidfile", str(self.directory / "docker.pid")]
        argv += ["--bridge", "none"]  # compose makes its own networks; the default bridge may belong to another engine
        argv += ["--default-address-pool", f"base={NETWORKS},size=24", "--host-gateway-ip", HOST]
        argv += ["--data-root", str(self.directory / "data"), "--exec-root", str(self.directory / "exec")]
        with (self.directory / "dockerd.log").open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                self.docker("version")
            except LocalError:
                time.sleep(0.2)
            else:
                return self
        self.stop()
        raise NotReady(f"the Docker engine did not start; see {self.directory / 'dockerd.log'}")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End the engine, and unmount what it mounted: its folder can then be removed."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(STOP_SECONDS)
        unmount_below(self.directory)


def ensure_programs() -> None:
    """Install Debian's Docker if it is missing; raise CommandFailed."""
    found = [shutil.which(name) for name in ("docker", "dockerd", "debootstrap", "iptables")]
    if not all(found):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "update"], timeout=300, env=env)
        run(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES], timeout=900, env=env)
