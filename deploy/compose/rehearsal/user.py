"""What a user of the stack does on one machine: a model and a receiver of one's own, changed code, production."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from deploy.compose.rehearsal.stack import KEY, MODEL_PACKAGE, Stack, wait_until
from deploy.local.errors import CommandFailed, LocalError
from deploy.local.processes.command import run
from deploy.local.terminal import say

MODEL = "mine"
RECEIVER_PORT = 17079
STOP_SECONDS = 30.0
PRODUCTION = "compose.production.yaml"
CHANGE = "\n# changed\n"


def use_own_model(stack: Stack) -> None:
    """Put a model with a package of its own into the folder for models, while the stack runs, and run it."""
    place = stack.clone / MODEL
    shutil.copytree(stack.clone / "deploy" / "models" / "echo", place)
    configuration = place / "config.pbtxt"
    configuration.write_text(configuration.read_text().replace('name: "echo"', f'name: "{MODEL}"'))
    with (place / "1" / "model.py").open("a") as code:
        code.write(f"import {MODEL_PACKAGE}\n")
    place.rename(stack.folder / "models" / MODEL)
    wait_until(lambda: run_model(stack) == [2.0, 5.0, 6.0], "a model of one's own is loaded, and runs a job")


def run_model(stack: Stack) -> object:
    """Return what the model answers, or None if it is not known yet."""
    body = json.dumps({"model": MODEL, "inputs": {"x": [[1, 2.5, 3]]}}).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", "Prefer": "wait=10"}
    request = urllib.request.Request(f"{stack.url('gateway')}/v1/jobs", body, headers)  # noqa: S310 - on loopback
    with suppress(OSError), urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        outputs = json.load(answer)["outputs"]
        return outputs and outputs[0]["data"]
    return None


def use_own_receiver(stack: Stack) -> None:
    """Run a receiver outside of the containers, and let it verify a webhook."""
    with host_receiver(stack):
        stack.smoke(f"http://host.docker.internal:{RECEIVER_PORT}/")
    say("ok: a receiver on the host has verified a webhook")


@contextmanager
def host_receiver(stack: Stack) -> Iterator[None]:
    env = {"CHARONIA_URL": stack.url("gateway"), "CHARONIA_KEY": KEY, "PORT": str(RECEIVER_PORT)}
    argv = [sys.executable, str(stack.folder / "receiver.py")]
    with subprocess.Popen(argv, env={**os.environ, **env}) as process:
        try:
            yield
        finally:
            process.terminate()


def change_code(stack: Stack, service: str) -> None:
    """Change code of a service while Compose watches it; wait until it runs."""
    file = f"services/{service}/__main__.py"
    container = f"charonia-{service}-1"

    def has_changed() -> bool:
        with suppress(LocalError):  # while there is no container
            health = stack.engine.docker("inspect", "-f", "{{.State.Health.Status}}", container)
            return health == "healthy" and stack.engine.docker("exec", container, "cat", file).endswith(CHANGE.strip())
        return False

    with watching(stack):
        with (stack.clone / file).open("a") as code:
            code.write(CHANGE)
        wait_until(has_changed, f"the {service} runs the code that was changed")


@contextmanager
def watching(stack: Stack) -> Iterator[None]:
    """Let Compose build services again when their code changes; raise LocalError if it ends by itself."""
    say("$ docker compose watch --no-up")
    log = stack.engine.directory / "watch.log"

    def has_begun() -> bool:
        if process.poll() is not None:
            raise LocalError(f"Compose does not watch:\n{log.read_text()}")
        return "Watch enabled" in log.read_text()

    with (
        log.open("wb") as out,
        subprocess.Popen([*stack.command, "watch", "--no-up"], env=stack.env, stdout=out, stderr=out) as process,
    ):
        try:
            wait_until(has_begun, "Compose watches")
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(STOP_SECONDS)


def check_production(stack: Stack) -> None:
    """Check that production asks for each key, and that .env alone names its files."""
    argv = [stack.command[0], "-f", str(stack.folder / "compose.yaml"), "-f", str(stack.folder / PRODUCTION), "config"]
    try:
        run(argv, timeout=60, env=stack.env)
    except CommandFailed as error:
        if "is missing a value: set it in .env" not in str(error):
            raise
    else:
        raise LocalError("production has started without keys")
    example = (stack.folder / ".env.example").read_text()
    file = stack.folder / ".env"
    file.write_text(
        "\n".join(f"{line}{secrets.token_hex(32)}" if line.endswith("=") else line for line in example.splitlines())
    )
    try:
        shown = run(["env", f"--chdir={stack.folder}", stack.command[0], "config"], timeout=60, env=stack.env)
    finally:
        file.unlink()
    if shown.count('CHARONIA_DEVELOPMENT: "0"') < 3:
        raise LocalError(f".env did not choose {PRODUCTION}:\n{shown}")
    say("ok: production starts with keys of its own only")
