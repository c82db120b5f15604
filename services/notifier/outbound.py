"""Claim → send → record: the loop that empties the schedule kept in Postgres."""

import asyncio
import contextlib
import random
from datetime import UTC, datetime
from typing import Literal, assert_never

from common import ids, tracing
from common.batching import Batcher
from common.errors import Unavailable
from common.logs import Log
from services.notifier import metrics, schedule
from services.notifier.outcome import Outcome
from services.notifier.sender import Sender
from services.notifier.store import Claim, Record, Store

POLL_SECONDS = 0.5  # between looks for due deliveries, unless woken
PAUSE_SECONDS = 1.0  # before another look while the database is away
LEASE_MARGIN = 15.0  # seconds beyond the deadline of an attempt, to write down what it came to
# An outage of the database that is shorter than this repeats no attempt: nobody can claim during it either, and the
# fence keeps what was claimed since.
RECORD_SECONDS = 300.0

Result = Literal["succeeded", "failed", "postponed", "exhausted"]
log = Log("delivery")


class Outbound:
    """Attempts due deliveries, at most `concurrency` at a time.

    A claim pushes a delivery's due time behind a lease longer than the attempt's deadline. Whatever becomes of this
    process, a claim that lapsed is simply due again: at least once, always under the same id.
    """

    def __init__(self, store: Store, sender: Sender, plan: tuple[float, ...], timeout: float, concurrency: int) -> None:
        """`timeout` is an attempt's deadline in seconds, `plan` the seconds before each attempt."""
        self.store = store
        self.sender = sender
        self.plan = plan
        self.lease = timeout + LEASE_MARGIN
        self.concurrency = concurrency
        self.woken = asyncio.Event()
        self.stopping = False
        self.claiming = asyncio.Lock()
        self.hungry = False  # there may be more due than there was room for
        self.sending: set[asyncio.Task[None]] = set()
        self.records: Batcher[Record, bool] = Batcher(self.write)

    def wake(self) -> None:
        self.woken.set()

    async def run(self) -> None:
        """Claims and sends until cancelled; after `stop` it claims no more."""
        while True:
            self.woken.clear()
            try:
                async with self.claiming:
                    await self.claim()
            except Unavailable as error:
                log.warning("delivery.claims_wait", error=error)
                await asyncio.sleep(PAUSE_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self.woken.wait()

    async def claim(self) -> None:
        room = 0 if self.stopping else self.concurrency - len(self.sending)
        if room == 0:
            return
        claims = await self.store.claim_deliveries(room, self.lease)
        self.hungry = len(claims) == room
        for claim in claims:
            task = asyncio.create_task(self.deliver(claim))
            self.sending.add(task)
            task.add_done_callback(self.release)
        metrics.deliveries_in_flight.set(len(self.sending))

    def release(self, task: asyncio.Task[None]) -> None:
        self.sending.discard(task)
        metrics.deliveries_in_flight.set(len(self.sending))
        if self.hungry:
            self.wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            # A bug of ours: its claim lapses, and the delivery is tried again.
            log.logger.error("delivery.broken", exc_info=error)

    async def deliver(self, claim: Claim) -> None:
        outcome = await self.sender.send(claim)
        metrics.delivery_seconds.observe(outcome.seconds)
        chance = random.random()  # noqa: S311 -- jitter, not a secret
        verdict = schedule.decide(outcome, claim.tries, claim.age, self.plan, random=chance, now=datetime.now(UTC))
        kept = await self.record(write_record(claim, outcome, verdict))
        result = name_result(verdict)
        metrics.deliveries.labels(result).inc()
        report = log.info if result == "succeeded" else log.warning
        report(
            f"delivery.{result}" if kept else "delivery.not_recorded",
            delivery_id=ids.show(ids.Kind.DELIVERY, claim.id),
            job_id=ids.show(ids.Kind.JOB, claim.job_id),
            attempt=claim.attempt,
            status_code=outcome.status_code,
            error=outcome.fault,
            duration_ms=round(outcome.seconds * 1000),
            trace_id=tracing.trace_id(claim.traceparent),
        )

    async def record(self, record: Record) -> bool:
        """Whether it was written: not when another claim has taken over, nor when the database stayed away."""
        deadline = asyncio.get_running_loop().time() + RECORD_SECONDS
        while True:
            try:
                return await self.records.submit(record)
            except Unavailable:
                if asyncio.get_running_loop().time() >= deadline:
                    return False
                await asyncio.sleep(PAUSE_SECONDS / 2)  # sooner than the next claim of this process

    async def write(self, records: list[Record]) -> list[bool]:
        written = await self.store.record_attempts(records)
        return [record.id in written for record in records]

    async def stop(self, grace: float) -> None:
        """Claims no more; attempts under way end within the grace (seconds), else their claims lapse."""
        self.stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                async with self.claiming:  # a claim under way still brings deliveries
                    pass
                while self.sending:
                    await asyncio.wait(self.sending)
        for task in tuple(self.sending):
            task.cancel()


def write_record(claim: Claim, outcome: Outcome, verdict: schedule.Verdict) -> Record:
    status: Literal["pending", "succeeded", "exhausted"]
    delay, counted = None, True
    match verdict:
        case schedule.Succeeded():
            status = "succeeded"
        case schedule.Exhausted():
            status = "exhausted"
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
    )


def name_result(verdict: schedule.Verdict) -> Result:
    match verdict:
        case schedule.Succeeded():
            return "succeeded"
        case schedule.Again(counted=True):
            return "failed"
        case schedule.Again():
            return "postponed"
        case schedule.Exhausted():
            return "exhausted"
        case _:
            assert_never(verdict)
