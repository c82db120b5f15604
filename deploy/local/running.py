"""Remembers the ports, instances and models' folders of a running stack, for commands in another terminal."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.local.errors import NotReady
from deploy.local.installation import command_for
from deploy.local.processes.lock import Lock
from deploy.local.settings import COUNTS, PORTS, Settings

FILE = "ports.json"
FOLDERS = ("model_repository", "models")
LANGUAGE = "language_models"


def remember_ports(settings: Settings) -> None:
    """Write the stack's ports and instances, and where its models are, to its folder."""
    file = settings.stack_dir / FILE
    fresh = file.with_suffix(".new")  # renamed when complete
    ports = {name: getattr(settings, name) for name in (*PORTS, *COUNTS)}
    folders = {name: str(path.absolute()) for name in FOLDERS if (path := getattr(settings, name))}
    fresh.write_text(json.dumps(ports | folders | {LANGUAGE: settings.language_models}))
    fresh.rename(file)


def forget_ports(stack_dir: Path) -> None:
    (stack_dir / FILE).unlink(missing_ok=True)


def find_running(settings: Settings) -> Settings:
    """Return the settings with the ports of the stack that runs in `stack_dir`; raise NotReady if none does."""
    file = settings.stack_dir / FILE
    if not file.exists() or not Lock(settings.stack_dir).is_taken:  # a killed stack leaves the file
        start = f"start it with `{command_for('up')}`, with the same STACK_DIR or PORT_BASE"
        raise NotReady(f"no stack runs in {settings.stack_dir}: {start}")
    found: dict[str, Any] = json.loads(file.read_text())
    folders = {name: Path(found[name]) for name in FOLDERS if name in found}
    remembered: dict[str, Any] = {name: found[name] for name in (*PORTS, *COUNTS)} | folders
    remembered[LANGUAGE] = found.get(LANGUAGE, 0)
    return replace(settings, **remembered)
