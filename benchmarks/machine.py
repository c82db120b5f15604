"""What a result must be read with: the machine, the versions, the commit."""

import os
import platform
import subprocess
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from deploy.local.ports import HOST
from deploy.local.rabbitmq import find_scripts
from deploy.local.settings import ROOT
from deploy.local.stack import Stack

LIBRARIES = ("aio-pika", "asyncpg", "httpx", "aiohttp", "litestar", "msgspec", "tritonclient", "uvicorn", "uvloop")


def describe(stack: Stack) -> dict[str, Any]:
    """Return the facts about this machine and a running stack."""
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "cpu": _find(Path("/proc/cpuinfo"), "model name"),
        "cores": os.cpu_count(),
        "memory": _find(Path("/proc/meminfo"), "MemTotal"),
        "load": os.getloadavg(),  # when it began; the CPU of `others` tells more
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "postgresql": stack.postgres.query("SHOW server_version"),
        "rabbitmq": find_scripts().parent.name,
        "triton": _triton_version(stack.settings.triton_http_port) if stack.triton in stack.servers else None,
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.strip()


def _find(path: Path, name: str) -> str:
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "unknown")


def _triton_version(port: int) -> str:
    connection = HTTPConnection(HOST, port, timeout=5.0)
    try:
        connection.request("GET", "/v2")
        found: str = msgspec.json.decode(connection.getresponse().read())["version"]
        return found
    finally:
        connection.close()
