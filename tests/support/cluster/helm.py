"""Renders the Helm chart with the values files of its tests."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deploy.local import helm
from deploy.local.settings import ROOT

CHART = ROOT / "deploy" / "kubernetes" / "charonia"
VALUES = ROOT / "tests" / "integration" / "deploy" / "kubernetes" / "values"
FILES = sorted(path.stem for path in VALUES.glob("*.yaml"))
WORKLOADS = ("Deployment", "Job")
PART = re.compile(r"^# Source: all/charts/(case-\d+)/", re.MULTILINE)
Object = dict[str, Any]


def run_helm(*argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(helm.DIRECTORY / "helm"), *argv]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)


def render_text(name: str, more: Mapping[str, Any] | None = None) -> str:
    """Return what Helm renders with a values file, and with values that win over it."""
    done = run_helm("template", "charonia", str(CHART), *file_options(name), stdin=json.dumps(more or {}))
    assert done.returncode == 0, done.stderr
    return done.stdout


def render_cases(directory: Path, name: str, cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what Helm renders with a values file for each case of values that win over it.

    One process renders all cases: the chart is a part of another chart once for each of them.
    """
    values = yaml.safe_load((VALUES / f"{name}.yaml").read_text())
    parts = [{"name": CHART.name, "version": "*", "alias": f"case-{number}"} for number in range(len(cases))]
    chart = {"apiVersion": "v2", "name": "all", "version": "1.0.0", "dependencies": parts}
    (directory / "Chart.yaml").write_text(json.dumps(chart))
    merged = {part["alias"]: merge(values, case) for part, case in zip(parts, cases, strict=True)}
    (directory / "values.yaml").write_text(json.dumps(merged))
    (directory / "charts").mkdir()
    (directory / "charts" / CHART.name).symlink_to(CHART)
    done = run_helm("template", "charonia", str(directory), "--namespace", "inference")
    assert done.returncode == 0, done.stderr
    _, *found = PART.split(done.stdout)
    texts = dict.fromkeys(merged, "")
    for alias, text in zip(found[::2], found[1::2], strict=True):
        texts[alias] += text.replace(alias, CHART.name)  # in a label with the name of the chart
    return list(texts.values())


def merge(values: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as Helm merges them: objects field by field, everything else as a whole."""
    return {**values} | {
        name: merge(values[name], value) if isinstance(value, dict) and isinstance(values.get(name), dict) else value
        for name, value in more.items()
    }


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
