"""`python -m deploy.compose.rehearsal` tests the compose stack on a real Docker engine, without pulling images.

It builds Charonia's images, and replaces the others with images of Debian packages. It starts the stack of a copy of
this clone, and does what a user does: the smoke test, a model and a receiver of one's own, changed code. It scales and
kills containers. Then it starts a pod of each kind that the Helm chart renders. At the end it removes everything. It
needs root, and a quarter of an hour the first time. Its data is below .charonia/compose.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack

from deploy.compose.images import SERVICES
from deploy.compose.rehearsal.bases import ensure_base
from deploy.compose.rehearsal.engine import Engine, ensure_programs
from deploy.compose.rehearsal.images import check_image
from deploy.compose.rehearsal.pods import rehearse_pods
from deploy.compose.rehearsal.program import ensure_compose
from deploy.compose.rehearsal.reproducible import check_reproducible
from deploy.compose.rehearsal.stack import Stack, wait_until
from deploy.compose.rehearsal.user import change_code, check_production, use_own_model, use_own_receiver
from deploy.local.errors import LocalError
from deploy.local.settings import ROOT
from deploy.local.terminal import say

PLACE = ROOT / ".charonia" / "compose"


def count_up(stack: Stack, job: str) -> int:
    """Return how many instances of a service Prometheus scrapes."""
    with urllib.request.urlopen(f"{stack.url('prometheus')}/api/v1/targets?state=active", timeout=5) as answer:  # noqa: S310
        targets = json.load(answer)["data"]["activeTargets"]
    return sum(1 for each in targets if each["labels"]["job"] == f"charonia-{job}" and each["health"] == "up")


def has_spans(stack: Stack) -> bool:
    with urllib.request.urlopen(stack.url("otlp"), timeout=5) as answer:  # noqa: S310 - on loopback
        return bool(json.load(answer).get("/v1/traces"))


def rehearse(stack: Stack) -> None:
    check_production(stack)
    stack.compose("build", timeout=1800)
    for service in SERVICES:
        check_image(stack.engine, service)
    check_reproducible(stack.engine, stack.env["PYTHON_IMAGE"])
    stack.compose("up", "-d")
    stack.smoke()
    wait_until(lambda: has_spans(stack), "spans were sent")
    use_own_model(stack)
    use_own_receiver(stack)
    stack.compose("up", "-d", "--scale", "dispatcher=2")
    wait_until(lambda: count_up(stack, "dispatcher") == 2, "Prometheus scrapes both dispatchers")
    wait_until(lambda: all(count_up(stack, service) for service in SERVICES), "Prometheus scrapes every other service")
    for service in (*SERVICES, "s3"):
        stack.crash(f"charonia-{service}-1")
    change_code(stack, "notifier")
    stack.smoke()
    stack.compose("stop", *SERVICES, "triton", "receiver")
    rehearse_pods(stack.engine, stack.env["PYTHON_IMAGE"], stack.url("s3"))


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
            python, triton_python = ensure_base(engine, "trixie"), ensure_base(engine, "bookworm")
            stack = Stack(engine, ensure_compose(engine, python), python, triton_python)
            stopping.callback(stack.compose, "down", "--volumes")
            rehearse(stack)
    except (LocalError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    say(f"Everything works. It took {time.monotonic() - begin:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
