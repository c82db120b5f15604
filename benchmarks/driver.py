"""A process that makes load: a question is one line of JSON on its standard input, the answer one on its output."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any

import msgspec
import uvloop

from deploy.local.errors import NotReady
from deploy.local.settings import ROOT

STOP = 10.0  # seconds

Answering = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Driver:
    """The parent's end of it, a context manager. `module` runs serve()."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="driver")
        self._child = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is for us, who then close its input
        )

    @property
    def pid(self) -> int:
        return self._child.pid

    def ask(self, timeout: float, **question: Any) -> dict[str, Any]:
        """Return the answer; raise NotReady where there is none within `timeout` seconds."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with suppress(BrokenPipeError):  # then it has ended, and so has its output
            self._child.stdin.write(msgspec.json.encode(question) + b"\n")
            self._child.stdin.flush()
        line = b""
        with suppress(TimeoutError):
            line = self._reader.submit(self._child.stdout.readline).result(timeout)
        if not line:
            raise NotReady(f"no answer to {question} within {timeout:g} s")
        answer: dict[str, Any] = msgspec.json.decode(line)
        return answer

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        try:
            self._child.wait(STOP)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(STOP)
        self._reader.shutdown()


def serve(open_load: Callable[[], AbstractAsyncContextManager[Answering]]) -> None:
    """The child's end: answer questions until the input is closed."""

    async def run() -> None:
        async with open_load() as answer:
            while line := await asyncio.to_thread(sys.stdin.buffer.readline):
                sys.stdout.buffer.write(msgspec.json.encode(await answer(msgspec.json.decode(line))) + b"\n")
                sys.stdout.buffer.flush()

    uvloop.run(run())
