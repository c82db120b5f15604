"""Whether the answer to a batch waits for its doorbells."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from common.outbox import Outbox, OutboxRow
from services.gateway import batches
from services.gateway.batch_store import BatchStore
from services.gateway.batches import BatchSubmitter
from services.gateway.submit import Submitter


class FakeOutbox:
    """Rings once it is let."""

    def __init__(self, is_crowded: bool) -> None:
        self.is_crowded = is_crowded
        self.begun = asyncio.Event()
        self.let = asyncio.Event()

    async def announce_many(self, _: Sequence[OutboxRow]) -> None:
        self.begun.set()
        await self.let.wait()


def ring(outbox: FakeOutbox) -> "asyncio.Task[None]":
    nothing = cast("Any", None)
    submitter = BatchSubmitter(cast("BatchStore", nothing), cast("Submitter", nothing), cast("Outbox", outbox))
    return asyncio.create_task(submitter.ring([], {}))


async def test_an_answer_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "RING_SECONDS", 60.0)
    await asyncio.wait_for(ring(FakeOutbox(is_crowded=False)), 5)


async def test_where_too_much_waits_already_it_does() -> None:
    outbox = FakeOutbox(is_crowded=True)
    ringing = ring(outbox)
    await asyncio.wait_for(outbox.begun.wait(), 5)
    assert not ringing.done()  # else it would be, before its doorbells begin
    outbox.let.set()
    await asyncio.wait_for(ringing, batches.RING_SECONDS / 2)


async def test_but_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "RING_SECONDS", 0.0)
    await asyncio.wait_for(ring(FakeOutbox(is_crowded=True)), 5)
