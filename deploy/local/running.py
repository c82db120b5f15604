"""Remembers the ports of a running stack, for commands in another terminal."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.local.errors import NotReady
from deploy.local.installation import command_for
from deploy.local.processes.lock import Lock
from deploy.local.settings import PORTS, Settings

FILE = "ports.json"


def remember_ports(settings: Settings) -> None:
    """Write the stack's ports to its folder."""
    file = settings.stack_dir / FILE
    fresh = file.with_suffix(".new")  # renamed when complete
    fresh.write_text(json.dumps({name: getattr(settings, name) for name in PORTS}))
    fresh.rename(file)


def forget_ports(stack_dir: Path) -> None:
    (stack_dir / FILE).unlink(missing_ok=True)


def find_running(settings: Settings) -> Settings:
    """Return the settings with the ports of the stack that runs in `stack_dir`; raise NotReady if none does."""
    file = settings.stack_dir / FILE
    if not file.exists() or not Lock(settings.stack_dir).is_taken:  # a killed stack leaves the file
        start = f"start it with `{command_for('up')}`, with the same STACK_DIR or PORT_BASE"
        raise NotReady(f"no stack runs in {settings.stack_dir}: {start}")
    ports: dict[str, Any] = json.loads(file.read_text())
    return replace(settings, **{name: ports[name] for name in PORTS})
