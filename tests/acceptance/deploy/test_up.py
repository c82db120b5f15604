"""`make up` goes on when one of its parts dies."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from deploy.local.processes.ports import free_block
from deploy.local.processes.tree import alive, members, send
from deploy.local.settings import ROOT
from deploy.local.supervisor import DEATHS
from tests.support.waiting import eventually

DEADLINE = 120.0
HEADERS = {"Authorization": "Bearer ch_dev", "Prefer": "wait=30"}
PROGRAMS = {  # a part of each one's command line
    "postgres": "/postgres -D",
    "dispatcher": "-m services.dispatcher",
    "notifier": "-m services.notifier",
}
KILLED = ("postgres", "dispatcher")  # a server and a service; tests of outages kill and start the others


@dataclass
class Up:
    """A stack of `make up`."""

    process: "subprocess.Popen[bytes]"
    output: Path
    environment: dict[str, str]
    url: str = ""

    def kill(self, part: str) -> bool:
        """Kill a part, if it runs. Return whether it ran."""
        found = [pid for pid in members(self.process.pid) if PROGRAMS[part] in read_command(pid)]
        send({*found[:1]}, signal.SIGKILL)
        return bool(found)

    async def wait_for(self, text: str) -> None:
        async def poll() -> bool:
            return text in self.output.read_text()

        await eventually(poll, f"it has printed: {text}", DEADLINE)

    async def run_job(self) -> str:
        """Run a job. A gateway that starts answers nothing yet, or 503."""
        body = {"model": "echo", "inputs": {"x": [[1.0]]}}
        async with httpx.AsyncClient(headers=HEADERS, timeout=40) as client:

            async def poll() -> bool:
                try:
                    submitted.append(await client.post(f"{self.url}/v1/jobs", json=body))
                except httpx.TransportError:
                    return False
                return submitted[-1].is_success

            submitted: list[httpx.Response] = []
            await eventually(poll, "a job is accepted", DEADLINE)
            job: dict[str, str] = submitted[-1].json()

            async def has_ended() -> bool:
                job.update((await client.get(f"{self.url}/v1/jobs/{job['id']}?wait=5")).json())
                return job["status"] in ("succeeded", "failed")

            await eventually(has_ended, "the job has ended", DEADLINE)
            return job["status"]


def read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:  # it has ended
        return ""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    place = tmp_path_factory.mktemp("up")
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment |= {"STACK_DIR": str(place / "stack"), "PORT_BASE": str(free_block(55))}
    with (place / "up.log").open("wb") as output:
        command = [sys.executable, "-m", "deploy.local", "up"]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
    up = Up(process, place / "up.log", environment)
    try:
        asyncio.run(up.wait_for("Started in"))
        url = re.search(r"API +(\S+)", up.output.read_text())
        assert url is not None
        up.url = url[1]
        yield up
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(DEADLINE)


async def test_a_part_that_is_killed_is_started_again(up: Up) -> None:
    for part in KILLED:
        assert up.kill(part)
        await up.wait_for(f"{part} ended with code -9, and is started again. Its log: ")
        assert await up.run_job() == "succeeded", part
    assert up.output.read_text().count("is started again") == len(KILLED)


async def test_a_service_is_restarted_on_request(up: Up) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "deploy.local", "restart", "notifier", env=up.environment, stdout=subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert (process.returncode, output) == (0, b"notifier is ready.\n")
    assert up.output.read_text().count("notifier is restarted.") == 1
    assert await up.run_job() == "succeeded"


async def test_a_part_that_keeps_ending_ends_all(up: Up) -> None:
    """This is the last test: the stack has ended."""
    family = members(up.process.pid)

    async def poll() -> bool:
        up.kill("notifier")
        return up.process.poll() is not None

    await eventually(poll, "it gives up", DEADLINE)
    text = up.output.read_text()
    assert up.process.returncode == 1
    assert text.count("notifier ended with code -9, and is started again") >= DEATHS - 1
    assert "error: notifier ended with code -9; the end of " in text
    assert text.endswith(f"\nit ended {DEATHS} times within 60 s; mend what its log names, then start again\n")
    assert not alive(family)
