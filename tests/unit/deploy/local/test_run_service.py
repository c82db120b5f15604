"""A service may run in a terminal of its own, for a debugger."""

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.commands import run_service
from deploy.local.errors import NotReady, PortTaken
from deploy.local.processes.ports import HOST
from deploy.local.settings import Settings

BECOME = """
import os, sys
from pathlib import Path
from deploy.local.processes.process import Process
program = "import os; print(os.getpid(), os.environ['NAME'], os.getcwd())"
print(os.getpid(), flush=True)
folder = Path(sys.argv[1])
Process("part", [sys.executable, "-c", program], env={"NAME": "x"}, cwd=folder, log=folder / "log").become()
"""


def test_a_process_becomes_the_program(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BECOME, str(tmp_path)]
    pid, *found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split()
    assert found == [pid, "x", str(tmp_path)]


def test_what_is_no_service_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="no service 'triton'; there are gateway, dispatcher, notifier"):
        run_service(Settings.private(tmp_path), "triton")


def test_a_stack_with_this_service_is_to_start_without_it(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="a dispatcher of its own: start it with `make up DISPATCHERS=0`"):
        run_service(Settings.private(tmp_path), "dispatcher")


def test_another_program_has_its_port(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        settings = replace(Settings.private(tmp_path), gateways=0, gateway_port=taken.getsockname()[1])
        with pytest.raises(PortTaken, match="GATEWAY_PORT"):
            run_service(settings, "gateway")
