"""How a service starts, and how a command ends."""

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from common import lifecycle

SERVICE = """
import asyncio, resource
from common import lifecycle
from common.settings import Settings

async def run(settings: Settings, stopping: asyncio.Event) -> None:
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
lifecycle.OPEN_FILES = 512
raise SystemExit(lifecycle.main("service", Settings, run))
"""
LISTENING = """
import asyncio, sys
from common import lifecycle
from common.http import health
from common.settings import Settings

async def run(settings: Settings, stopping: asyncio.Event) -> None:
    taken = int(sys.argv[1])
    await health.serve(settings.host, taken, {}).serve()

raise SystemExit(lifecycle.main("service", Settings, run))
"""
COMMAND = """
import os, threading, time
from common import lifecycle

def command():
    {body}

lifecycle.run_command(command)
"""
ENVIRONMENT = {
    "CHARONIA_DATABASE_URL": "postgresql://127.0.0.1:1/none",
    "CHARONIA_AMQP_URL": "amqp://127.0.0.1:1/",
    "CHARONIA_PORT": "1",
}


def test_a_service_raises_the_limit_at_the_start() -> None:
    command = [sys.executable, "-c", SERVICE]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "512\n"


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-c", LISTENING, str(port)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"service: cannot listen on 127.0.0.1:{port}"


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_service_may_open_as_many_files_as_the_system_allows(
    limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hard = limits[1]
    monkeypatch.setattr(lifecycle, "OPEN_FILES", 512)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    lifecycle.raise_open_files_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (512, hard)


def test_the_limit_is_never_lowered(limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "OPEN_FILES", 128)
    lifecycle.raise_open_files_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits


@pytest.mark.parametrize(
    ("body", "code", "output"),
    [
        ("print('done'); return 3", 3, ("done\n", "")),
        ("raise KeyboardInterrupt", 130, ("", "")),
        ("raise ValueError('wrong')", 1, ("", "ValueError: wrong\n")),
        ("os.close(1); print('lost'); return 2", 2, ("", "")),
        ("threading.Thread(target=time.sleep, args=(600,)).start(); return 0", 0, ("", "")),
    ],
)
def test_a_command_ends_at_once_with_its_code(body: str, code: int, output: tuple[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(body=body)],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr[-len(output[1]) or len(done.stderr) :]) == (code, *output)
