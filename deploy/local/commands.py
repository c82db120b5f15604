"""What can be done to a stack that runs, from another terminal."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from typing import Any, NoReturn

from deploy.local.errors import NotReady
from deploy.local.installation import command_for
from deploy.local.processes.ports import HOST, require_free
from deploy.local.restarts import Requests
from deploy.local.servers.model_control import READY
from deploy.local.servers.postgres import connect_as
from deploy.local.settings import COUNTS, ROOT, Settings
from deploy.local.stack import Stack
from deploy.local.terminal import say

RELOAD_SECONDS = 60.0
LISTED_SECONDS = 15.0  # until the gateway shows a model that Triton has loaded
POLL_SECONDS = 0.2


def make_key(settings: Settings, tenant: str, scopes: Sequence[str], models: Sequence[str], name: str) -> int:
    """Print a new key of a tenant, and what it may do; return the exit code of the command."""
    environment = Stack(settings).environment
    url = connect_as("operator", environment["CHARONIA_DATABASE_URL"])
    options = [*(["--scope", *scopes] if scopes else []), *(["--model", *models] if models else [])]
    options += [f"--name={name}"] if name else []
    argv = [sys.executable, "-m", "services.gateway.commands.keys", "create", tenant, *options]
    return subprocess.run(argv, cwd=ROOT, env=environment | {"CHARONIA_DATABASE_URL": url}, check=False).returncode


def reload_model(settings: Settings, model: str) -> None:
    """Load a model, again if it is loaded. Return when the API shows it; raise NotReady, with Triton's reason."""
    stack = Stack(settings)
    control = stack.triton.models
    found = [each for each in control.list_models() if each.name == model]
    if not found:
        names = ", ".join(sorted({each.name for each in control.list_models()}))
        raise NotReady(f"Triton's repository has no model {model!r}; it has {names}")
    if any(each.state == READY for each in found):
        control.unload(model)
    try:
        control.load(model, RELOAD_SECONDS)
    except NotReady as error:
        raise NotReady(f"{model} is not loaded: {stack.triton.explain(model, str(error))}") from error
    key = stack.environment["CHARONIA_BOOTSTRAP_KEY"]
    deadline = time.monotonic() + LISTED_SECONDS
    while not _is_listed(settings.gateway_port, key, model):
        if time.monotonic() > deadline:
            raise NotReady(
                f"Triton has loaded {model}, but the API does not show it as ready: is a dispatcher running?"
            )
        time.sleep(POLL_SECONDS)
    say(f"{model} is ready.")


def run_service(settings: Settings, kind: str) -> NoReturn:
    """Become a service of the running stack, which must have none of its kind. Raises NotReady, and PortTaken."""
    name = f"{kind}s"
    if name not in COUNTS:
        raise NotReady(f"there is no service {kind!r}; there are {', '.join(each[:-1] for each in COUNTS)}")
    if getattr(settings, name):
        stopped = command_for("up", **{name.upper(): "0"})
        raise NotReady(f"the running stack has a {kind} of its own: start it with `{stopped}`")
    one: dict[str, Any] = {name: 1}
    (service,) = (each for each in Stack(replace(settings, **one)).services if each.kind == kind)
    require_free({f"{kind}_port".upper(): service.port})
    service.process.become()


def restart_parts(settings: Settings, name: str) -> None:
    """Restart each part with this name, or this name and a number. Return when they are ready; raise NotReady."""
    stack = Stack(settings)
    names = [part.name for part in (*stack.services, *stack.servers)]
    wanted = [each for each in names if each == name or each.startswith(f"{name}-")]
    if not wanted:
        raise NotReady(f"the stack has no part {name!r}; it has {', '.join(names)}")
    for each in wanted:
        Requests(settings.stack_dir).ask(each)
        say(f"{each} is ready.")


def _is_listed(port: int, key: str, model: str) -> bool:
    connection = HTTPConnection(HOST, port, timeout=5.0)
    try:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        listed = json.loads(answer.read()).get("items", [])
        return any(each["name"] == model and each["ready"] for each in listed)
    except (OSError, HTTPException, ValueError):
        return False
    finally:
        connection.close()
