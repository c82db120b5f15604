"""`python -m deploy.compose.rehearsal` tests the compose stack on a real Docker engine, without pulling images.

It builds Charonia's images, and replaces the others with images of Debian packages. It starts the stack, runs the smoke
test, scales and kills containers. Then it starts a pod of each kind that the Helm chart renders. At the end it removes
everything. It needs root, and a quarter of an hour the first time. Its data is below .charonia/compose.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack

from deploy.compose.images import SERVICES
from deploy.compose.rehearsal.bases import ensure_base
from deploy.compose.rehearsal.engine import Engine, ensure_programs
from deploy.compose.rehearsal.pods import rehearse_pods
from deploy.compose.rehearsal.reproducible import check_reproducible
from deploy.local.errors import LocalError, NotReady
from deploy.local.processes.command import run
from deploy.local.settings import ROOT
from deploy.local.terminal import say

COMPOSE = ROOT / "deploy" / "compose"
PLACE = ROOT / ".charonia" / "compose"
STAND_INS = ("POSTGRES", "RABBITMQ", "PROMETHEUS", "ALERTMANAGER")
WITHOUT = ["--scale", "grafana=0"]  # Debian has no package of it
WITHIN = 120.0  # seconds until a wait fails
TARGETS = "http://127.0.0.1:9090/api/v1/targets?state=active"
SPANS = "http://127.0.0.1:4318/"


class Stack:
    def __init__(self, engine: Engine, python: str, triton_python: str) -> None:
        images = {f"{name}_IMAGE": f"charonia-rehearsal/{name.lower()}" for name in STAND_INS}
        images["ALERTMANAGER_IMAGE"] = images["PROMETHEUS_IMAGE"]
        images |= {f"{name}_IMAGE": python for name in ("PYTHON", "JAEGER", "GRAFANA")}
        self.engine = engine
        self.env = engine.env | images | {"TRITON_PYTHON_IMAGE": triton_python, "COMPOSE_PROJECT_NAME": "charonia"}

    def compose(self, *argv: str, timeout: float = 600.0) -> None:
        names = ("compose.yaml", "compose.override.yaml", "rehearsal/compose.yaml")
        files = [option for name in names for option in ("-f", str(COMPOSE / name))]
        env_file = ["--env-file", str(COMPOSE / ".env.example")]
        say(f"$ docker-compose {' '.join(argv)}")
        run(["docker-compose", *files, *env_file, *argv], timeout=timeout, env=self.env)

    def smoke(self) -> None:
        say("$ deploy/compose/smoke")
        env = {**os.environ, "CHARONIA_BOOTSTRAP_KEY": "ch_dev"}
        say(run([sys.executable, str(COMPOSE / "smoke")], timeout=2 * WITHIN, env=env))

    def crash(self, container: str) -> None:
        """Kill its first process from outside, as if it had ended by itself; wait until it is healthy again."""
        os.kill(int(self.engine.docker("inspect", "-f", "{{.State.Pid}}", container)), signal.SIGKILL)

        def back() -> bool:
            return (
                self.engine.docker("inspect", "-f", "{{.RestartCount}} {{.State.Health.Status}}", container)
                == "1 healthy"
            )

        wait_until(back, f"{container} is healthy again")


def wait_until(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN
    while not look():
        if time.monotonic() > deadline:
            raise NotReady(f"not within {WITHIN:g} s: {what}")
        time.sleep(0.5)
    say(f"ok: {what}")


def check_image(engine: Engine, service: str) -> None:
    """Check that the image has only packages of its lock file, and does not run as root."""
    ask = "import importlib.metadata as m; print(*(each.metadata['Name'] for each in m.distributions()))"
    image = f"charonia/{service}:development"
    found = set(map(normalise, engine.docker("run", "--rm", "--entrypoint", "python", image, "-c", ask).split()))
    lock = (COMPOSE / "requirements" / f"{service}.txt").read_text()
    locked = set(map(normalise, re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE)))
    if found - locked:
        raise LocalError(f"{image} has packages that its lock file does not have: {sorted(found - locked)}")
    user = engine.docker("run", "--rm", "--read-only", "--entrypoint", "id", image, "-u")
    if user == "0":
        raise LocalError(f"{image} runs as root")
    images = (image, "charonia-rehearsal/trixie")
    size, base = (int(engine.docker("image", "inspect", "-f", "{{.Size}}", each)) / 1e6 for each in images)
    say(f"ok: {image}: {len(found)} packages, all in its lock file; user {user}; {size - base:.0f} MB over its base")


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def count_up(job: str) -> int:
    with urllib.request.urlopen(TARGETS, timeout=5) as answer:
        targets = json.load(answer)["data"]["activeTargets"]
    return sum(1 for each in targets if each["labels"]["job"] == f"charonia-{job}" and each["health"] == "up")


def has_spans() -> bool:
    with urllib.request.urlopen(SPANS, timeout=5) as answer:
        return bool(json.load(answer).get("/v1/traces"))


def rehearse(stack: Stack) -> None:
    stack.compose("build", timeout=1800)
    for service in SERVICES:
        check_image(stack.engine, service)
    check_reproducible(stack.engine, stack.env["PYTHON_IMAGE"])
    stack.compose("up", "-d", *WITHOUT)
    stack.smoke()
    wait_until(has_spans, "spans were sent")
    stack.compose("up", "-d", *WITHOUT, "--scale", "dispatcher=2")
    wait_until(lambda: count_up("dispatcher") == 2, "Prometheus scrapes both dispatchers")
    wait_until(lambda: all(count_up(service) for service in SERVICES), "Prometheus scrapes every other service")
    for service in (*SERVICES, "s3"):
        stack.crash(f"charonia_{service}_1")
    stack.smoke()
    stack.compose("stop", *SERVICES, "triton", "receiver")
    rehearse_pods(stack.engine, stack.env["PYTHON_IMAGE"])


def main() -> int:
    if os.geteuid() != 0:
        sys.stderr.write("error: this starts a Docker engine, which needs root; run it as root\n")
        return 1
    begin = time.monotonic()
    try:
        ensure_programs()
        with ExitStack() as stopping:
            engine = stopping.enter_context(Engine(PLACE))
            say("Making base images from Debian packages …")
            stack = Stack(engine, ensure_base(engine, "trixie"), ensure_base(engine, "bookworm"))
            stopping.callback(stack.compose, "down", "--volumes")
            rehearse(stack)
    except (LocalError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    say(f"Everything works. It took {time.monotonic() - begin:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
