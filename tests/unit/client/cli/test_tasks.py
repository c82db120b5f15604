"""Tasks that go on despite a cancel, as `wait_for` of Python 3.11 can make them."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import pytest
from charonia import AsyncCharonia
from charonia.cli import tasks
from charonia.cli.commands import top
from charonia.cli.session import Session
from charonia.cli.tasks import MOST_CANCELS, end_tasks
from charonia.cli.terminal.top_view import Snapshot, TopView

from tests.unit.client.cli.terminal.test_top_view import make_snapshot

DEADLINE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "CANCEL_SECONDS", 0.01)


async def swallow_cancels(count: int) -> None:
    for _ in range(count):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    await asyncio.Event().wait()


async def test_a_task_is_canceled_until_it_ends() -> None:
    task = asyncio.create_task(swallow_cancels(2))
    await asyncio.sleep(0)  # until it has begun
    async with asyncio.timeout(DEADLINE_SECONDS):
        await end_tasks([task])
    assert task.cancelled()


async def test_a_task_without_an_end_is_left() -> None:
    task = asyncio.create_task(swallow_cancels(MOST_CANCELS))
    await asyncio.sleep(0)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await end_tasks([task])
    assert not task.done()
    await end_tasks([task])
    assert task.cancelled()


async def test_top_ends_although_its_reader_swallows_a_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_snapshot(_client: AsyncCharonia) -> Snapshot:
        return make_snapshot([], [])

    async def refresh(_client: AsyncCharonia, _view: TopView) -> None:
        await swallow_cancels(1)

    @contextlib.contextmanager
    def press(_keys: bytes, act: Callable[[], object]) -> Iterator[None]:
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, act)  # once the reader has begun
        yield

    for name, replacement in {"read_snapshot": read_snapshot, "refresh": refresh, "on_key": press}.items():
        monkeypatch.setattr(top, name, replacement)
    for name, value in {"CHARONIA_URL": "http://gateway.invalid", "CHARONIA_KEY": "ch_x"}.items():
        monkeypatch.setenv(name, value)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await top.watch(Session(None, as_json=False))
