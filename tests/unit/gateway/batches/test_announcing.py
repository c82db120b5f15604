"""When the response to a batch waits for the announcement of its jobs."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from common.outbox import Outbox, OutboxRow
from services.gateway.batches import submit
from services.gateway.batches.store import BatchStore
from services.gateway.batches.submit import BatchSubmitter
from services.gateway.jobs.submit import Submitter


class FakeOutbox:
    """Announces when it is allowed to."""

    def __init__(self, is_busy: bool) -> None:
        self.is_busy = is_busy
        self.begun = asyncio.Event()
        self.allowed = asyncio.Event()

    async def announce_many(self, _: Sequence[OutboxRow]) -> None:
        self.begun.set()
        await self.allowed.wait()


def announce(outbox: FakeOutbox) -> "asyncio.Task[None]":
    nothing = cast("Any", None)
    submitter = BatchSubmitter(cast("BatchStore", nothing), cast("Submitter", nothing), cast("Outbox", outbox))
    return asyncio.create_task(submitter._announce([], {}))


async def test_the_response_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "ANNOUNCE_SECONDS", 60.0)
    await asyncio.wait_for(announce(FakeOutbox(is_busy=False)), 5)


async def test_it_waits_for_a_crowded_outbox() -> None:
    outbox = FakeOutbox(is_busy=True)
    announcing = announce(outbox)
    await asyncio.wait_for(outbox.begun.wait(), 5)
    assert not announcing.done()  # without the wait, it would end before the announcement begins
    outbox.allowed.set()
    await asyncio.wait_for(announcing, submit.ANNOUNCE_SECONDS / 2)


async def test_it_does_not_wait_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "ANNOUNCE_SECONDS", 0.0)
    await asyncio.wait_for(announce(FakeOutbox(is_busy=True)), 5)
