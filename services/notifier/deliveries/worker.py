"""Claims due deliveries, sends them and records the results."""

import asyncio
import contextlib
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import assert_never
from uuid import UUID

from common import ids
from common.errors import Unavailable
from common.telemetry import tracing
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.notifier import metrics
from services.notifier.claims.store import ClaimedDelivery, ClaimStore
from services.notifier.claims.tenant_slots import TenantRooms, TenantSlots
from services.notifier.deliveries.sender import Sender
from services.notifier.delivery_attempts import retry_schedule
from services.notifier.delivery_attempts.recorder import AttemptRecorder, make_record
from services.notifier.delivery_attempts.result import AttemptResult
from services.notifier.endpoints.due_endpoints import DueEndpoints
from services.notifier.metrics import ResultLabel

POLL_SECONDS = 0.5  # the longest time between two claims
PAUSE_SECONDS = 1.0  # before the next claim while the database is unavailable
HELD_SECONDS = 0.05  # before the next claim from an endpoint that another transaction has locked
LEASE_MARGIN = 15.0  # seconds of a lease after the attempt's deadline, for recording the result

MAX_CLAIMS = 200  # in one statement, which also reads their bodies
DUE_CLAIMS = 24  # of the loop; more attempts that start at the same moment would delay other tenants' new deliveries
BACKLOG_SHARE = 4  # one slot of four is not for new deliveries while others wait

TEST_SCHEDULE = (0.0,)  # a test event has one attempt, so its result is known at once

log = Log("delivery")


class DeliveryWorker:
    """Attempts due deliveries, with a limit in total and a limit for each endpoint.

    A claim moves a delivery's due time behind a lease that is longer than the attempt's deadline. A
    claim that lapses is due again, so every delivery arrives at least once, always under the same
    id. `NewDeliveries` claims most of them at once. This loop claims the others and the retries.
    """

    def __init__(
        self,
        store: ClaimStore,
        sender: Sender,
        recorder: AttemptRecorder,
        due: DueEndpoints,
        schedule: tuple[float, ...],
        *,
        timeout: float,
        concurrency: int,
        endpoint_concurrency: int,
    ) -> None:
        """`timeout` is an attempt's deadline in seconds. `schedule` is in seconds."""
        self.lease = timeout + LEASE_MARGIN
        self.endpoint_concurrency = endpoint_concurrency
        self._store = store
        self._sender = sender
        self._recorder = recorder
        self.due = due
        self._schedule = schedule
        self._concurrency = concurrency
        self._stopping = False
        self._reserved: dict[asyncio.Event, int] = {}  # slots of each running claim, by the event set at its end
        self._has_backlog = False  # whether more may be due than there were free slots
        self._pause = POLL_SECONDS  # before the next claim
        self._attempts: set[asyncio.Task[None]] = set()
        self._tenants = TenantSlots()

    async def run(self) -> None:
        """Claim and send until cancelled. After `stop`, claim no more.

        Rests after each claim for as long as the claim took. Under load, each claim then carries
        many deliveries.
        """
        clock, outage, woken = asyncio.get_running_loop().time, Outage(), True
        while True:
            self.due.clear()
            began = clock()
            try:
                if woken or self._expects_due or await self._store.has_due():
                    await self.claim()
                outage.end()
            except Unavailable as error:
                if outage.begin():
                    log.warning("delivery.database_unavailable", error=error)
                await asyncio.sleep(PAUSE_SECONDS)
            ended = clock()
            woken = await self.due.wait(self._pause)
            await asyncio.sleep(max(0.0, 2 * ended - began - clock()))

    @property
    def _expects_due(self) -> bool:
        """Whether the last claim left something behind. If not, a cheap look comes before the next claim."""
        return self._has_backlog or self._pause < POLL_SECONDS or not self.due.is_empty

    async def claim(self) -> None:
        """Claim due deliveries for the free slots and start them."""
        self._pause = POLL_SECONDS
        slots = min(self.count_free_slots(), DUE_CLAIMS)
        if slots == 0:
            self._has_backlog = True
            return
        endpoints, rooms = self.due.take(), self.find_rooms()
        try:
            with self._reserve(slots):
                found = await self._store.claim_due(
                    slots, self.lease, self.endpoint_concurrency, list(endpoints), rooms
                )
        except Unavailable:
            self.due.put_back(endpoints)
            raise
        self.due.put_back(found.held)
        self._has_backlog = found.wait == 0
        if not self._has_backlog:
            self._pause = min(found.wait, POLL_SECONDS)  # a rate limit may allow the next attempt before the next poll
        if found.held:
            self._pause = HELD_SECONDS
        self.start(found.claims)
        if self._has_backlog and (found.claims or found.has_more) and self.count_free_slots() > 0:
            self.due.wake()  # otherwise, what waits is of tenants that have their share

    def find_rooms(self) -> TenantRooms:
        """Return how many attempts each tenant may begin now."""
        return self._tenants.find_rooms(self.count_free_slots(), MAX_CLAIMS)

    def count_free_slots(self) -> int:
        used = len(self._attempts) + sum(self._reserved.values())
        return 0 if self._stopping else max(0, self._concurrency - used)

    @contextlib.contextmanager
    def _reserve(self, slots: int) -> Iterator[None]:
        """Reserve slots for the claims made inside the block. Start them right after it."""
        self._reserved[ended := asyncio.Event()] = slots
        try:
            yield
        finally:
            del self._reserved[ended]
            ended.set()

    @contextlib.contextmanager
    def reserve_for_new(self, wanted: int) -> Iterator[int]:
        """Reserve up to `wanted` slots for new deliveries. Yields how many. Some are kept for others that wait."""
        kept = self._concurrency // BACKLOG_SHARE + 1 if self._has_backlog else 0
        slots = max(0, min(self.count_free_slots() - kept, wanted, MAX_CLAIMS))
        try:
            with self._reserve(slots):
                yield slots
        finally:
            if self._has_backlog:
                self.due.wake()

    def start(self, claims: Sequence[ClaimedDelivery]) -> None:
        for claim in claims:
            task = asyncio.create_task(self.deliver(claim))
            self._attempts.add(task)
            self._tenants.note_start(claim.tenant_id)
            task.add_done_callback(partial(self._finish, claim.tenant_id))
        metrics.deliveries_in_flight.set(len(self._attempts))

    def _finish(self, tenant: UUID, task: asyncio.Task[None]) -> None:
        self._attempts.discard(task)
        self._tenants.note_end(tenant)
        metrics.deliveries_in_flight.set(len(self._attempts))
        if self._has_backlog:
            self.due.wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            # A bug. The claim lapses, and the delivery is attempted again.
            log.exception("delivery.task_failed", error)

    async def deliver(self, claim: ClaimedDelivery) -> None:
        """Send a delivery and record the result."""
        if claim.attempt == 1:
            metrics.first_attempt_seconds.observe(max(0.0, claim.event_age))
        result = await self._sender.send(claim)
        metrics.delivery_seconds.observe(result.seconds)
        schedule = TEST_SCHEDULE if claim.event_type == "webhook.test" else self._schedule
        chance = random.random()  # noqa: S311 -- jitter, not a secret
        decision = retry_schedule.decide(result, claim.tries, claim.age, schedule, random=chance, now=datetime.now(UTC))
        recorded = await self._recorder.record(make_record(claim, result, decision))
        report(claim, result, to_label(decision), recorded)

    async def stop(self, grace: float) -> None:
        """Claim no more.

        Give attempts in flight `grace` seconds to end; after that their claims lapse.
        """
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                for ended in tuple(self._reserved):  # each may still start deliveries
                    await ended.wait()
                while self._attempts:
                    await asyncio.wait(self._attempts)
        for task in tuple(self._attempts):
            task.cancel()


def report(claim: ClaimedDelivery, result: AttemptResult, label: ResultLabel, recorded: bool) -> None:
    """Count and log one attempt."""
    metrics.delivery_attempts.labels(label).inc()
    if result.error is not None:
        metrics.delivery_errors.labels(result.error).inc()
    write = log.info if label == "succeeded" else log.warning
    write(
        f"delivery.{label}" if recorded else "delivery.not_recorded",
        delivery_id=ids.encode(ids.Kind.DELIVERY, claim.id),
        **({} if claim.job_id is None else {"job_id": ids.encode(ids.Kind.JOB, claim.job_id)}),
        tenant=ids.encode(ids.Kind.TENANT, claim.tenant_id),
        event_type=claim.event_type,
        attempt=claim.attempt,
        status_code=result.status_code,
        error=result.error,
        duration_ms=round(result.seconds * 1000),
        trace_id=tracing.trace_id(claim.traceparent),
    )


def to_label(decision: retry_schedule.Decision) -> ResultLabel:
    match decision:
        case retry_schedule.Succeeded():
            return "succeeded"
        case retry_schedule.Rescheduled(counted=True):
            return "failed"
        case retry_schedule.Rescheduled():
            return "postponed"
        case retry_schedule.Exhausted():
            return "exhausted"
        case _:
            assert_never(decision)
