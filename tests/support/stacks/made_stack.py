"""The stack of `make up`, and a terminal beside it in which the guide "Bring your own model" is followed."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import Any

import httpx

from deploy.local.processes.ports import free_block
from deploy.local.processes.tree import members, send
from deploy.local.settings import ROOT
from tests.support.command_line import run_sources
from tests.support.waiting import eventually

GUIDE = (ROOT / "docs" / "how-to" / "bring-your-own-model.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DEADLINE = 120.0
READY = "Charonia is ready."
HEADERS = {"Authorization": "Bearer ch_dev", "Prefer": "wait=30"}
PROGRAMS = {"postgres": "/postgres -D", "dispatcher": "-m services.dispatcher"}  # a part of each one's command line


def find_blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a text in this language."""
    return [match[2] for match in BLOCK.finditer(text) if match[1] == language]


def find_block(heading: str, language: str, number: int = 0) -> str:
    """Return a code block of a section of the guide."""
    section = GUIDE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return find_blocks(section, language)[number]


@dataclass
class Trial:
    """A clone's terminal, with a stack and models of its own."""

    models: Path
    environment: dict[str, str]
    log: Path
    pid: int = 0
    url: str = ""
    output: str = ""

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the guide against this stack."""
        command = command.replace("$PWD/models", str(self.models)).replace("localhost:8080", self.url.split("/")[-1])
        command = run_sources(command)
        command = re.sub(r"^make ", "make -s -o .venv/.installed ", command, flags=re.MULTILINE)
        return subprocess.run(
            ["sh", "-ec", command],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE,
        )

    def write(self, path: str, text: str | bytes) -> None:
        file = self.models / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def call(self, model: str, inputs: dict[str, Any], key: str = "ch_dev") -> httpx.Response:
        """Submit a job, and wait for its end."""
        headers = HEADERS | {"Authorization": f"Bearer {key}"}
        return httpx.post(f"{self.url}/v1/jobs", json={"model": model, "inputs": inputs}, headers=headers, timeout=40)

    def get(self, path: str) -> dict[str, Any]:
        """Read something of the API."""
        answer = httpx.get(f"{self.url}/v1/{path}", headers={"Authorization": HEADERS["Authorization"]}, timeout=40)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def kill(self, part: str) -> None:
        """Kill a part."""
        found = [pid for pid in members(self.pid) if PROGRAMS[part] in read_command(pid)]
        assert found
        send({*found[:1]}, signal.SIGKILL)

    async def wait_for(self, text: str) -> None:
        """Return once `make up` has printed a text."""

        async def poll() -> bool:
            return text in self.log.read_text()

        await eventually(poll, f"it has printed: {text}", DEADLINE)

    async def run_job(self) -> str:
        """Run a job, and return how it ended. A gateway that starts answers nothing yet, or 503."""

        async def poll() -> dict[str, str] | None:
            try:
                answer = await asyncio.to_thread(self.call, "echo", {"x": [[1.0]]})
            except httpx.TransportError:
                return None
            accepted: dict[str, str] = answer.json()
            return accepted if answer.is_success else None

        async def has_ended() -> bool:
            job.update(await asyncio.to_thread(self.get, f"jobs/{job['id']}?wait=5"))
            return job["status"] in ("succeeded", "failed")

        job = await eventually(poll, "a job is accepted", DEADLINE)
        await eventually(has_ended, "the job has ended", DEADLINE)
        return job["status"]


def read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:  # it has ended
        return ""


@contextmanager
def make_up(place: Path) -> Iterator[Trial]:
    """The guide's model and a broken one, after the guide's `make up`. Ctrl-C ends it well."""
    environment = {name: environ[name] for name in ("PATH", "HOME", "LANG") if name in environ}
    environment |= {"STACK_DIR": str(place / "stack"), "PORT_BASE": str(free_block(55))}
    up = Trial(place / "models", environment, place / "up.log")
    heading = "Try it on one machine"
    files = find_block(heading, "text").replace("models/", "").split()
    up.write(files[0], find_block(heading, "text", 1))
    up.write(files[1], find_block(heading, "python"))
    up.write("torchy/config.pbtxt", find_block(heading, "text", 1).replace("reverse", "torchy", 1))
    up.write("torchy/1/model.py", "import torch_of_nobody\n")
    assert find_block(heading, "sh") == "MODELS=$PWD/models make up\n"
    with up.log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "deploy.local", "up"],
            cwd=ROOT,
            env=environment | {"MODELS": str(up.models)},
            stdout=output,
            stderr=output,
        )
    up.pid = process.pid
    try:

        async def poll() -> bool:
            assert process.poll() is None, up.log.read_text()
            return READY in up.log.read_text() and "Ctrl-C stops" in up.log.read_text()

        asyncio.run(eventually(poll, "the stack is ready", DEADLINE))
        up.output = up.log.read_text()
        found = re.search(r"API +(\S+)", up.output)
        assert found is not None
        up.url = found[1]
        yield up
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 0
