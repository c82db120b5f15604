"""Work on large bodies is done by other processes, which come and go with the gateway."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import Unavailable
from deploy.local.settings import ROOT
from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import Problem
from services.gateway.http.worker_processes import LARGE, SECONDS, Workers
from services.gateway.jobs.schemas import SubmitJob
from tests.integration.waiting import until

PARENT = """
import asyncio, os, signal
from services.gateway.http.worker_processes import Workers
async def main():
    print(await Workers().run(os.getpid), flush=True)
    signal.pause()
if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers()
    yield workers
    workers.close()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """Whoever reads it waits for somebody who writes."""
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


async def test_no_process_is_there_before_a_large_body_is(workers: Workers) -> None:
    """The first makes two: that which works, and the tracker of its locks."""
    before = {*multiprocessing.active_children()}  # of other tests, killed and about to end
    assert await workers.work(LARGE, os.getpid) == os.getpid()
    assert {*multiprocessing.active_children()} <= before
    assert await workers.work(LARGE + 1, os.getpid) != os.getpid()


async def test_the_loop_goes_on_meanwhile(workers: Workers, fifo: Path) -> None:
    """The work can't end before the loop has done its part."""
    work = asyncio.create_task(workers.work(LARGE + 1, Path.read_text, fifo))

    def answer() -> bool:
        with contextlib.suppress(OSError):  # nobody reads yet
            writing = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            os.write(writing, b"done")
            os.close(writing)
            return True
        return False

    await until(answer, "the work has begun")
    assert await work == "done"


async def test_what_is_small_is_done_at_once(workers: Workers) -> None:
    assert await workers.work(LARGE, os.getpid) == os.getpid()
    assert await workers.work(LARGE + 1, os.getpid) != os.getpid()


async def test_a_problem_comes_back_whole(workers: Workers) -> None:
    body = b'{"model": "echo", "inputs": {}, "retry": {"attempts": 3}}'
    with pytest.raises(Problem) as here:
        decode_body(body, SubmitJob)
    with pytest.raises(Problem) as there:
        await workers.run(decode_body, body, SubmitJob)
    assert vars(there.value) == vars(here.value)
    assert str(there.value) == str(here.value) != ""


async def test_a_killed_worker_is_replaced(workers: Workers) -> None:
    with pytest.raises(Unavailable):
        await workers.run(signal.raise_signal, signal.SIGKILL)
    assert await workers.run(os.getpid) != os.getpid()


async def test_nobody_else_notices_a_killed_worker(workers: Workers) -> None:
    worker = await workers.run(os.getpid)
    os.kill(worker, signal.SIGKILL)
    assert await workers.run(os.getpid) != worker


async def test_signals_to_the_whole_group_are_the_parents(workers: Workers) -> None:
    worker = await workers.run(os.getpid)
    for number in (signal.SIGINT, signal.SIGTERM):
        await workers.run(signal.raise_signal, number)
    assert await workers.run(os.getpid) == worker


async def test_work_that_takes_too_long_is_given_up_with_its_worker(workers: Workers, fifo: Path) -> None:
    workers.seconds = 0.2
    with pytest.raises(Unavailable):
        await workers.run(Path.read_text, fifo)
    workers.seconds = SECONDS
    assert await workers.run(os.getpid) != os.getpid()
    assert len(multiprocessing.active_children()) == 1


def has_ended(pid: int) -> bool:
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # perhaps while it was read
        return True


async def test_a_worker_ends_with_its_parent_however_that_ends(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, str(script), env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert parent.stdout is not None
    worker = int(await asyncio.wait_for(parent.stdout.readline(), 30))
    parent.kill()
    try:
        await until(lambda: has_ended(worker), "the worker has ended")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        await parent.wait()  # for the end of its output too, which a worker holds open
