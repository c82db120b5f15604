"""Reads the compose files as Docker Compose does."""

import re
from typing import Any

import yaml

from deploy.local.settings import ROOT

COMPOSE = ROOT / "deploy" / "compose"
DEFAULT = re.compile(r"\$\{\w+:-([^{}]*)\}")


def read(file: str = "compose.yaml") -> dict[str, Any]:
    """Return a file, without the tag that says that Compose replaces a service and does not merge it."""
    found: dict[str, Any] = yaml.safe_load((COMPOSE / file).read_text().replace("!override", ""))
    return found


def fill_in(text: str) -> str:
    """Return a value as it is without variables in the environment."""
    while (filled := DEFAULT.sub(r"\1", text)) != text:
        text = filled
    return text


def read_environment(service: str, *files: str) -> dict[str, str]:
    """Return what a container gets from compose.yaml and more files, without variables in the environment."""
    merged: dict[str, Any] = {}
    for file in ("compose.yaml", *files):
        merged |= read(file)["services"].get(service, {}).get("environment", {})
    return {name: fill_in(str(value)) for name, value in merged.items()}
