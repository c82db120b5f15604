"""Checks what is in the images of the services."""

import re

from deploy.compose.rehearsal.engine import Engine
from deploy.local.errors import LocalError
from deploy.local.settings import ROOT
from deploy.local.terminal import say


def check_image(engine: Engine, service: str) -> None:
    """Check that the image has only packages of its lock file, and does not run as root."""
    ask = "import importlib.metadata as m; print(*(each.metadata['Name'] for each in m.distributions()))"
    image = f"charonia/{service}:development"
    found = set(map(normalise, engine.docker("run", "--rm", "--entrypoint", "python", image, "-c", ask).split()))
    lock = (ROOT / "deploy" / "compose" / "requirements" / f"{service}.txt").read_text()
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
