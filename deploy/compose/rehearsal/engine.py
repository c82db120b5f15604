"""A Docker engine of our own: its data and its socket below a folder, nothing of the machine's own engine touched."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

from deploy.local.command import run
from deploy.local.errors import LocalError, NotReady

PACKAGES = ("docker.io", "docker-compose", "debootstrap", "iptables")
START_SECONDS = 60.0
STOP_SECONDS = 60.0


class Engine:
    """A context manager: it runs inside."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.socket = self.directory / "docker.sock"
        self.env = {**os.environ, "DOCKER_HOST": f"unix://{self.socket}", "DOCKER_BUILDKIT": "0"}
        self.process: subprocess.Popen[bytes] | None = None

    def docker(self, *argv: str, timeout: float = 120.0) -> str:
        """What a command of the client's prints; raises CommandFailed."""
        return run(["docker", *argv], timeout=timeout, env=self.env).strip()

    def __enter__(self) -> "Engine":
        self.directory.mkdir(parents=True, exist_ok=True)
        argv = ["/usr/sbin/dockerd", "-H", self.env["DOCKER_HOST"], "--pidfile", str(self.directory / "docker.pid")]
        argv += ["--bridge", "none"]  # compose makes networks of its own; the usual bridge may be another engine's
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
        raise NotReady(f"the Docker engine does not start; see {self.directory / 'dockerd.log'}")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_SECONDS)


def ensure_programs() -> None:
    """Installs Debian's Docker where it is missing; raises CommandFailed."""
    found = [shutil.which(name) for name in ("docker", "dockerd", "docker-compose", "debootstrap", "iptables")]
    if not all(found):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "update"], timeout=300, env=env)
        run(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES], timeout=900, env=env)
