"""Renders the Helm chart with the values files of its tests."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml

from deploy.local import helm
from deploy.local.settings import ROOT

CHART = ROOT / "deploy" / "kubernetes" / "charonia"
VALUES = ROOT / "tests" / "integration" / "deploy" / "kubernetes" / "values"
FILES = sorted(path.stem for path in VALUES.glob("*.yaml"))
WORKLOADS = ("Deployment", "Job")
Object = dict[str, Any]


def run_helm(*argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(helm.DIRECTORY / "helm"), *argv]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)


def render_text(name: str, more: Mapping[str, Any] | None = None) -> str:
    """Return what Helm renders with a values file, and with values that win over it."""
    done = run_helm("template", "charonia", str(CHART), *file_options(name), stdin=json.dumps(more or {}))
    assert done.returncode == 0, done.stderr
    return done.stdout


def file_options(name: str) -> list[str]:
    """Return the options for a values file and for values on standard input."""
    return ["--namespace", "inference", "-f", str(VALUES / f"{name}.yaml"), "-f", "-"]


@cache
def render(name: str) -> list[Object]:
    return parse(render_text(name))


def parse(text: str) -> list[Object]:
    return [found for found in yaml.safe_load_all(text) if found]


def refuse(name: str, more: Mapping[str, Any]) -> str:
    """Return why Helm refuses values."""
    done = run_helm("template", "charonia", str(CHART), *file_options(name), stdin=json.dumps(more))
    assert done.returncode != 0, "these values were accepted"
    return done.stderr


def list_pods(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """Yield the name and the pod template of each workload."""
    for each in objects:
        if each["kind"] in WORKLOADS:
            yield each["metadata"]["name"], each["spec"]["template"]


def list_containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def find(objects: list[Object], kind: str, name: str = "") -> Object:
    (found,) = (each for each in objects if each["kind"] == kind and name in ("", each["metadata"]["name"]))
    return found
