"""What the worker claims next."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from common.errors import DatabaseUnavailable
from services.notifier.claims.store import ClaimBatch, ClaimStore
from services.notifier.claims.tenant_slots import UNLIMITED, TenantRooms
from services.notifier.deliveries.worker import HELD_SECONDS, DeliveryWorker
from services.notifier.endpoints.due_endpoints import DueEndpoints
from tests.unit.clock import LATE
from tests.unit.notifier.samples import RecorderStub, SenderStub

FIRST, SECOND = UUID(int=1), UUID(int=2)


async def test_added_endpoints_wake_the_worker_once() -> None:
    due = DueEndpoints()
    due.add([])
    await asyncio.wait_for(due.wait(0.0), LATE)
    due.add([FIRST, SECOND])
    due.add([FIRST])
    await asyncio.wait_for(due.wait(60.0), LATE)
    assert due.take() == {FIRST, SECOND}
    assert due.take() == set()


class HoldingStore(ClaimStore):
    """The second endpoint is locked. A third is added during the claim."""

    def __init__(self, due: DueEndpoints) -> None:
        self.due = due
        self.asked: list[set[UUID]] = []

    async def claim_due(
        self,
        limit: int,
        lease: float,
        endpoint_concurrency: int,
        endpoints: Sequence[UUID] = (),
        rooms: TenantRooms = UNLIMITED,
    ) -> ClaimBatch:
        self.asked.append(set(endpoints))
        self.due.add([FIRST])  # its delivery may be newer than what this claim sees
        if len(self.asked) == 1:
            raise DatabaseUnavailable
        return ClaimBatch([], 60.0, [SECOND])


async def test_no_endpoint_is_forgotten_before_its_claim() -> None:
    due = DueEndpoints()
    store, sender, recorder = HoldingStore(due), SenderStub(), RecorderStub()
    worker = DeliveryWorker(store, sender, recorder, due, (0.0,), timeout=1.0, concurrency=1, endpoint_concurrency=1)
    due.add([FIRST, SECOND])
    with pytest.raises(DatabaseUnavailable):
        await worker.claim()
    await worker.claim()
    assert store.asked == [{FIRST, SECOND}] * 2
    assert worker._pause == HELD_SECONDS
    assert due.take() == {FIRST, SECOND}
