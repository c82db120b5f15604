"""Helm takes the values of the guide to production on Kubernetes, and renders what its commands name."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from deploy.local.settings import ROOT
from tests.support.cluster.helm import CHART, parse, run_helm
from tests.support.guides import find_blocks

GUIDE = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
README = (CHART / "README.md").read_text()
VALUES, *MORE = find_blocks(GUIDE, "yaml")
MODELS: dict[str, Any] = {"triton": {"modelVolume": {"emptyDir": {}}}}
NAMED = re.compile(r"(?<=\s)(deployment|deploy|job)/([\w-]+)(?=\s)")  # not a path, such as deploy/kubernetes/charonia
KINDS = {"deployment": "Deployment", "deploy": "Deployment", "job": "Job"}


def render(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    done = run_helm("template", "charonia", str(CHART), "--values", "-", stdin=yaml.safe_dump(values))
    assert done.returncode == 0, done.stderr
    return parse(done.stdout)


@pytest.mark.parametrize("more", MORE)
def test_helm_takes_the_values_of_the_guide(more: str) -> None:
    """A later block has only what it is about."""
    values = yaml.safe_load(VALUES) | yaml.safe_load(more)
    values["pools"] = [MODELS | pool for pool in values["pools"]]
    assert render(values)


def test_the_commands_of_the_guide_name_objects_that_exist() -> None:
    objects = {(each["kind"], each["metadata"]["name"]) for each in render(yaml.safe_load(VALUES))}
    named = {(KINDS[kind], name) for block in find_blocks(GUIDE, "sh") for kind, name in NAMED.findall(block)}
    assert named
    assert named <= objects


def test_the_values_name_the_secrets_that_the_guide_makes() -> None:
    made = set(re.findall(r"kubectl create secret generic ([\w-]+)", GUIDE))
    text = str(render(yaml.safe_load(VALUES)))
    used = set(re.findall(r"'secretKeyRef': {[^}]*'name': '([\w-]+)'", text))
    assert used == made


def test_the_readme_makes_each_key_of_a_secret_that_its_values_use() -> None:
    (values,) = find_blocks(README, "yaml")
    found = re.findall(r"generic ([\w-]+)((?:[^\n]*\\\n)*[^\n]*)", README)
    made = {(name, key) for name, rest in found for key in re.findall(r"--from-literal=([\w-]+)=", rest)}
    objects = str(render(yaml.safe_load(values) | {"operator": {"enabled": True}}))
    used = re.findall(r"'secretKeyRef': {'name': '([\w-]+)', 'key': '([\w-]+)'}", objects)
    assert set(used) == made
