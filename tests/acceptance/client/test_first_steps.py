"""The README and the quickstart work as a reader follows them."""

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.local.processes.ports import free_ports
from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.settings import ROOT
from deploy.local.stack import Stack
from tests.support.command_line import INSTALLED
from tests.support.guides import make_environment, read_blocks, run_shell
from tests.support.waiting import eventually

README = ROOT / "README.md"
QUICKSTART = ROOT / "docs" / "quickstart.md"
RECEIVER = "localhost:9000"  # of the quickstart
CALL = re.compile(r"^\$ (.*?[^\\])$", re.DOTALL | re.MULTILINE)


def test_example_of_the_readme_runs_a_model(stack: Stack) -> None:
    (call,) = CALL.findall(README.read_text())
    assert '"status":"succeeded"' in run_shell(stack, ROOT, call)


class Receiver:
    """The quickstart's receiver. `log` has what it printed."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.address = f"localhost:{self.port}"
        self._environment = make_environment(stack, folder)
        self._log = folder / "receiver.log"
        self._program = folder / "receiver.py"
        self._program.write_text(read_blocks(QUICKSTART, "python")[0].replace("9000", str(self.port)))

    @property
    def log(self) -> str:
        return self._log.read_text()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with self._log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, str(self._program)], env=self._environment, stdout=output, stderr=output
            )
        try:
            wait_for(self._answers, "the receiver listens")
            yield
        finally:
            process.kill()
            process.wait(timeout=10)

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://{self.address}", trust_env=False).status_code == 501
        return False


def wait_for(condition: Callable[[], bool], what: str) -> None:
    async def poll() -> bool:
        return condition()

    asyncio.run(eventually(poll, what))


@pytest.fixture
def receiver(stack: Stack, tmp_path: Path) -> Receiver:
    return Receiver(stack, tmp_path)


@pytest.fixture
def session(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The names of the reader's interactive session."""
    monkeypatch.setenv("CHARONIA_URL", stack.url)
    monkeypatch.setenv("CHARONIA_KEY", DEVELOPMENT_KEY)
    names: dict[str, Any] = {}
    yield names
    names["client"].close()


def test_the_quickstart_ends_with_webhooks(
    stack: Stack, receiver: Receiver, session: dict[str, Any], tmp_path: Path
) -> None:
    _, submit, show, redeliver = read_blocks(QUICKSTART, "python")
    commands = [text for text in read_blocks(QUICKSTART, "sh") if RECEIVER in text]
    assert [INSTALLED in text for text in commands] == [True, False]
    with receiver.running():
        exec(submit.replace(RECEIVER, receiver.address), session)  # noqa: S102 -- readers run it too
        for command in commands:
            run_shell(stack, tmp_path, command.replace(RECEIVER, receiver.address))
        wait_for(lambda: receiver.log.count("job.succeeded JobData(") >= 3, "three webhooks are verified")
        assert "data=[2.0, 5.0, 6.0]" in receiver.log
        assert session["job"].id in receiver.log
        forged = {"webhook-id": "dlv_1", "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AAAA"}
        answer = httpx.post(f"http://{receiver.address}", content=b"{}", headers=forged, trust_env=False)
        assert answer.status_code == 401
    session["client"].close()
    exec(submit.replace(RECEIVER, receiver.address), session)  # noqa: S102
    wait_for(lambda: any(each.attempts for each in session["job"].deliveries()), "the webhook has failed")
    with receiver.running():
        exec(show, session)  # noqa: S102
        exec(redeliver, session)  # noqa: S102
        wait_for(lambda: session["job"].id in receiver.log, "the webhook is sent again")
