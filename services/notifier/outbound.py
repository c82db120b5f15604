"""Claim → send → record: the loop that empties the schedule kept in Postgres."""

import asyncio
import contextlib
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import assert_never

from common import ids, tracing
from common.errors import Unavailable
from common.logs import Log
from services.notifier import metrics, schedule
from services.notifier.metrics import Result
from services.notifier.record import Recorder, write_record
from services.notifier.sender import Sender
from services.notifier.store import Claim, Store

POLL_SECONDS = 0.5  # between looks for due deliveries at most, unless woken
PAUSE_SECONDS = 1.0  # before another look while the database is away
LEASE_MARGIN = 15.0  # seconds beyond the deadline of an attempt, to write down what it came to
MOST = 200  # claims of one statement, which brings their bodies
OFFERED = 4  # places for each event that is fanned out; a receiver more waits for the loop
ONCE = (0.0,)  # the schedule of a test: somebody waits for its one attempt

log = Log("delivery")


class Outbound:
    """Attempts due deliveries, at most `concurrency` at a time, of which `each` for one endpoint.

    A claim pushes a delivery's due time behind a lease longer than the attempt's deadline. Most are claimed as they are
    made (`Fanout`); the loop claims what could not be, and what is tried again. Whatever becomes of this
    process, a claim that lapsed is simply due again: at least once, always under the same id.
    """

    def __init__(
        self,
        store: Store,
        sender: Sender,
        recorder: Recorder,
        woken: asyncio.Event,
        plan: tuple[float, ...],
        *,
        timeout: float,
        concurrency: int,
        each: int,
    ) -> None:
        """`woken` asks for a look for what is due, `timeout` is an attempt's deadline in seconds, `plan` the seconds
        before each attempt."""
        self.store = store
        self.sender = sender
        self.recorder = recorder
        self.woken = woken
        self.plan = plan
        self.lease = timeout + LEASE_MARGIN
        self.concurrency = concurrency
        self.each = each
        self.stopping = False
        self.reserved: dict[asyncio.Event, int] = {}  # places for claims under way, each by what is set at its end
        self.hungry = False  # there may be more due than there was room for
        self.pause = POLL_SECONDS  # before the next look, unless woken
        self.sending: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        self.woken.set()

    async def run(self) -> None:
        """Claims and sends until cancelled; after `stop` it claims no more.

        Between two claims it rests as long as the first took: so they carry many under load, and wait for nothing else.
        """
        clock = asyncio.get_running_loop().time
        while True:
            self.woken.clear()
            began = clock()
            try:
                await self.claim()
            except Unavailable as error:
                log.warning("delivery.claims_wait", error=error)
                await asyncio.sleep(PAUSE_SECONDS)
            ended = clock()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.pause):
                    await self.woken.wait()
            await asyncio.sleep(max(0.0, 2 * ended - began - clock()))

    async def claim(self) -> None:
        self.pause = POLL_SECONDS
        room = min(self.count_room(), MOST)
        if room == 0:
            self.hungry = True
            return
        with self.reserve(room):
            claims, wait = await self.store.claim_deliveries(room, self.lease, self.each)
        self.hungry = wait == 0
        if not self.hungry:
            self.pause = min(wait, POLL_SECONDS)  # a rate limit may let the next through sooner than the next poll
        self.begin(claims)
        if self.hungry and self.count_room() > 0:
            self.wake()

    def count_room(self) -> int:
        return 0 if self.stopping else max(0, self.concurrency - len(self.sending) - sum(self.reserved.values()))

    @contextlib.contextmanager
    def reserve(self, room: int) -> Iterator[None]:
        """Places for what is claimed inside, to be begun at once thereafter."""
        self.reserved[over := asyncio.Event()] = room
        try:
            yield
        finally:
            del self.reserved[over]
            over.set()

    @contextlib.contextmanager
    def offer(self, events: int) -> Iterator[int]:
        """Places for what somebody else claims, of so many events; none where others wait for a place.

        A quarter of what is free is the loop's alone: whoever fans out may wait for a row that a stranger holds.
        """
        free = self.count_room()
        room = 0 if self.hungry else min(free - free // 4, OFFERED * events, MOST)
        try:
            with self.reserve(room):
                yield room
        finally:
            if self.hungry:
                self.wake()

    def begin(self, claims: Sequence[Claim]) -> None:
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
        if claim.attempt == 1:
            metrics.first_attempt_seconds.observe(max(0.0, claim.event_age))
        outcome = await self.sender.send(claim)
        metrics.delivery_seconds.observe(outcome.seconds)
        chance = random.random()  # noqa: S311 -- jitter, not a secret
        verdict = schedule.decide(
            outcome, claim.tries, claim.age, self.choose(claim), random=chance, now=datetime.now(UTC)
        )
        kept = await self.recorder.record(write_record(claim, outcome, verdict))
        result = name_result(verdict)
        metrics.deliveries.labels(result).inc()
        if outcome.fault is not None:
            metrics.delivery_faults.labels(outcome.fault).inc()
        report = log.info if result == "succeeded" else log.warning
        report(
            f"delivery.{result}" if kept else "delivery.not_recorded",
            delivery_id=ids.show(ids.Kind.DELIVERY, claim.id),
            **({} if claim.job_id is None else {"job_id": ids.show(ids.Kind.JOB, claim.job_id)}),
            tenant=ids.show(ids.Kind.TENANT, claim.tenant_id),
            event_type=claim.event_type,
            attempt=claim.attempt,
            status_code=outcome.status_code,
            error=outcome.fault,
            duration_ms=round(outcome.seconds * 1000),
            trace_id=tracing.trace_id(claim.traceparent),
        )

    def choose(self, claim: Claim) -> Sequence[float]:
        return ONCE if claim.event_type == "webhook.test" else self.plan

    async def stop(self, grace: float) -> None:
        """Claims no more; attempts under way end within the grace (seconds), else their claims lapse."""
        self.stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                for over in tuple(self.reserved):  # each still brings deliveries
                    await over.wait()
                while self.sending:
                    await asyncio.wait(self.sending)
        for task in tuple(self.sending):
            task.cancel()


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
