"""What attempts came to, written down in batches, with what follows for their endpoints and subscriptions."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, assert_never
from uuid import UUID

from common.batching import Batcher
from common.errors import Unavailable
from common.outbox import Outbox
from services.notifier import operations, schedule
from services.notifier.outcome import Outcome
from services.notifier.store import Claim, Record, Recorded, Store

# An outage of the database that is shorter than this repeats no attempt: nobody can claim during it either, and the
# fence keeps what was claimed since.
PERSIST_SECONDS = 300.0
PAUSE_SECONDS = 0.5  # before another try while the database is away


class Recorder:
    def __init__(
        self, store: Store, outbox: Outbox, wake: Callable[[], None], *, concurrency: int, patience: float
    ) -> None:
        """`concurrency` is for each endpoint; `patience` is how many seconds a subscription may fail on end; `wake` is
        called where something is due after all."""
        self.store = store
        self.outbox = outbox
        self.wake = wake
        self.concurrency = concurrency
        self.patience = patience
        self.batches: Batcher[Record, bool] = Batcher(self.write, name="attempts")

    async def record(self, record: Record) -> bool:
        """Whether it was written: not when another claim has taken over, nor when the database stayed away."""
        deadline = asyncio.get_running_loop().time() + PERSIST_SECONDS
        while True:
            try:
                return await self.batches.submit(record)
            except Unavailable:
                if asyncio.get_running_loop().time() >= deadline:
                    return False
                await asyncio.sleep(PAUSE_SECONDS)  # sooner than the next claim of this process

    async def write(self, records: list[Record]) -> list[bool]:
        if all(record.error is None for record in records):  # nothing follows, so one statement does it
            moved, due = await self.store.record_successes(records)
        else:
            moved, due = await self.write_failures(records)
        if due:
            self.wake()
        return [record.id in moved for record in records]

    async def write_failures(self, records: list[Record]) -> Recorded:
        """As `write`, where some failed."""
        endpoints = list({record.endpoint_id for record in records})
        async with self.store.write_endpoints() as connection:
            await self.store.lock_endpoints(connection, endpoints)
            moved, _ = await self.store.record_attempts(connection, records)
            messages = []
            if exhausted := [delivery for delivery, status in moved.items() if status == "exhausted"]:
                messages += await operations.tell_exhausted(connection, exhausted)
            if failed := [each for each in records if each.error is not None and each.counted and each.id in moved]:
                gone, failing = sort(failed)
                messages += await operations.tell_disabled(connection, gone, failing, self.patience)
            wait = await self.store.settle(connection, endpoints, self.concurrency)
        self.outbox.announce(messages)
        return Recorded(moved, wait == 0)


def sort(failed: Sequence[Record]) -> tuple[list[UUID], list[UUID]]:
    """The subscriptions that are gone, and the endpoints that failed."""
    gone = {record.webhook_id for record in failed if record.gone and record.webhook_id is not None}
    return list(gone), list({record.endpoint_id for record in failed})


def write_record(claim: Claim, outcome: Outcome, verdict: schedule.Verdict) -> Record:
    status: Literal["pending", "succeeded", "exhausted"]
    delay, counted, gone = None, True, False
    match verdict:
        case schedule.Succeeded():
            status = "succeeded"
        case schedule.Exhausted():
            status, gone = "exhausted", verdict.gone
        case schedule.Again():
            status, delay, counted = "pending", verdict.delay, verdict.counted
        case _:
            assert_never(verdict)
    return Record(
        id=claim.id,
        attempt=claim.attempt,
        status=status,
        delay=delay,
        counted=counted,
        started_at=claim.claimed_at,
        duration_ms=outcome.seconds * 1000,
        status_code=outcome.status_code,
        error=outcome.fault,
        response=outcome.response,
        endpoint_id=claim.endpoint_id,
        webhook_id=claim.webhook_id,
        gone=gone,
    )
