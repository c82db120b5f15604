"""The options of `docker run` for a container of a pod, as Helm renders it. What is not known is an error."""

import re
from collections.abc import Mapping
from typing import Any

from deploy.local.errors import LocalError

Object = dict[str, Any]
Secrets = Mapping[tuple[str, str], str]  # the value of each key of a Secret
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - Docker has an option of its own for it
UNITS = {"Ki": 1, "Mi": 2, "Gi": 3, "": 0}
USE = re.compile(r"\$\((\w+)\)")  # of a variable, in an argument
QUANTITY = re.compile(r"^(\d+)(Ki|Mi|Gi|)$")


def list_containers(spec: Object) -> list[Object]:
    """Return the containers of a pod in the order of their start."""
    return [*spec.get("initContainers", ()), *spec["containers"]]


def run_options(container: Object, spec: Object, secrets: Secrets) -> tuple[list[str], list[str]]:
    """Return the options of `docker run`, and what follows them: the image and its arguments."""
    command = container.get("command", [])
    variables = [show_variable(each, secrets) for each in container.get("env", ())]
    options = [
        *secure(container["securityContext"]),
        *(option for each in variables for option in ("--env", each)),
        *(option for each in container["volumeMounts"] for option in mount(each, spec["volumes"])),
        f"--memory={to_bytes(container['resources']['limits']['memory'])}",
        f"--stop-timeout={spec.get('terminationGracePeriodSeconds', 30)}",
    ]
    if command:
        options.append(f"--entrypoint={command[0]}")
    values = dict(each.split("=", 1) for each in variables)
    arguments = [USE.sub(lambda found: values[found[1]], each) for each in (*command[1:], *container.get("args", ()))]
    return options, [container["image"], *arguments]


def secure(context: Object) -> list[str]:
    """Return the options for a security context, which must be the one that all containers of the chart have."""
    match context:
        case {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "runAsUser": int(user),
            "runAsGroup": int(group),
            "seccompProfile": {"type": "RuntimeDefault"},  # Docker's default
        }:
            return [
                "--read-only",
                "--cap-drop=ALL",
                "--security-opt=no-new-privileges:true",
                f"--user={user}:{group}",
            ]
        case _:
            raise LocalError(f"unknown security context: {context}")


def show_variable(variable: Object, secrets: Secrets) -> str:
    match variable:
        case {"name": name, "value": value}:
            return f"{name}={value}"
        case {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}:
            return f"{name}={secrets[secret, key]}"
        case _:
            raise LocalError(f"unknown variable: {variable}")


def mount(mounted: Object, volumes: list[Object]) -> list[str]:
    """Return the options for a mount. An emptyDir is a tmpfs that everybody may write, as in Kubernetes."""
    (volume,) = (each for each in volumes if each["name"] == mounted["name"])
    path = mounted["mountPath"]
    match volume:
        case {"emptyDir": {"medium": "Memory", "sizeLimit": size}} if path == SHARED_MEMORY:
            return [f"--shm-size={to_bytes(size)}"]
        case {"emptyDir": empty}:
            limit = f",size={to_bytes(empty['sizeLimit'])}" if "sizeLimit" in empty else ""
            return [f"--tmpfs={path}:rw,exec,mode=0777{limit}"]
        case {"hostPath": {"path": str(place)}} if mounted.get("readOnly"):
            return [f"--volume={place}:{path}:ro"]
        case _:
            raise LocalError(f"unknown volume: {volume}")


def to_bytes(quantity: str) -> int:
    found = QUANTITY.match(quantity)
    if found is None:
        raise LocalError(f"unknown quantity: {quantity}")
    return int(found[1]) * int(1024 ** UNITS[found[2]])


def find_port(container: Object, probe: Object) -> int:
    """Return the port of a probe, which names it."""
    name = probe["httpGet"]["port"]
    (port,) = (each["containerPort"] for each in container["ports"] if each["name"] == name)
    return int(port)
