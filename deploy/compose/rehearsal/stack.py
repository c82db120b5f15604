"""The compose stack of a clone in a folder with blanks, as a user runs it: other ports, and no .env."""

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from deploy.compose.rehearsal.engine import Engine
from deploy.local.errors import NotReady
from deploy.local.processes.command import run
from deploy.local.settings import ROOT
from deploy.local.terminal import say

STAND_INS = ("POSTGRES", "RABBITMQ", "PROMETHEUS", "ALERTMANAGER")
FIRST_PORT = 17080  # of the host
PORT = re.compile(r"\$\{([A-Z0-9_]+_PORT):-")
WITHIN = 120.0  # seconds until a wait fails
KEY = "ch_dev"
MODEL_PACKAGE = "regex"  # for models, besides those of the demo's
RECEIVER = "http://receiver:8000/"


class Stack:
    """`clone` is a copy of this one. `ports` has the port of each variable."""

    def __init__(self, engine: Engine, program: Path, python: str, triton_python: str) -> None:
        images = {f"{name}_IMAGE": f"charonia-rehearsal/{name.lower()}" for name in STAND_INS}
        images["ALERTMANAGER_IMAGE"] = images["PROMETHEUS_IMAGE"]
        images |= {f"{name}_IMAGE": python for name in ("PYTHON", "JAEGER", "GRAFANA")}
        self.engine = engine
        self.clone = copy_clone(engine.directory / "a clone" / "charonia")
        self.folder = self.clone / "deploy" / "compose"
        names = sorted({*PORT.findall((self.folder / "compose.yaml").read_text())})
        self.ports = {name: FIRST_PORT + number for number, name in enumerate(names)}
        self.env = engine.env | images | {"TRITON_PYTHON_IMAGE": triton_python, "MODEL_PACKAGES": MODEL_PACKAGE}
        self.env |= {name: str(port) for name, port in self.ports.items()}
        self.env["DOCKER_BUILDKIT"] = "1"  # in Compose, as users have it; the engine's own client lacks it
        self.command = [str(program), "-f", str(self.folder / "compose.yaml")]
        self.command += ["-f", str(self.folder / "rehearsal" / "compose.yaml")]

    def compose(self, *argv: str, timeout: float = 600.0) -> str:
        say(f"$ docker compose {' '.join(argv)}")
        return run([*self.command, *argv], timeout=timeout, env=self.env)

    def smoke(self, receiver: str = RECEIVER) -> None:
        say(self.compose("run", "--rm", "-e", f"RECEIVER_URL={receiver}", "smoke", timeout=2 * WITHIN).strip())

    def url(self, service: str) -> str:
        """Return where a service listens on the host."""
        return f"http://127.0.0.1:{self.ports[f'{service.upper()}_PORT']}"

    def crash(self, container: str) -> None:
        """Kill its first process from outside, as if it had ended by itself; wait until it is healthy again."""
        os.kill(int(self.engine.docker("inspect", "-f", "{{.State.Pid}}", container)), signal.SIGKILL)
        form = "{{.RestartCount}} {{.State.Health.Status}}"
        wait_until(
            lambda: self.engine.docker("inspect", "-f", form, container) == "1 healthy", f"{container} is healthy again"
        )


def copy_clone(place: Path) -> Path:
    """Copy the files of this clone that a commit would have; return the folder."""
    shutil.rmtree(place, ignore_errors=True)
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]
    listed = run([*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], timeout=60)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():  # unless it was removed, and that is not committed yet
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name, follow_symlinks=False)
    return place


def smoke_from_host(gateway: str, key: str, receiver: str, store: Mapping[str, str]) -> str:
    """Run the smoke test outside of the containers; return its output. `store` has its variables of the S3 server."""
    image = ROOT / "deploy" / "local" / "demo.png"
    env = {"CHARONIA_URL": gateway, "CHARONIA_KEY": key, "RECEIVER_URL": receiver, "IMAGE": str(image)}
    script = ROOT / "deploy" / "compose" / "smoke.py"
    return run([sys.executable, str(script)], timeout=2 * WITHIN, env={**os.environ, **env, **store})


def wait_until(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN
    while not look():
        if time.monotonic() > deadline:
            raise NotReady(f"not within {WITHIN:g} s: {what}")
        time.sleep(0.5)
    say(f"ok: {what}")
