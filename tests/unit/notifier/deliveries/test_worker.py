"""Records of attempts, and the time of the next claim."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from common import ids
from common.errors import DatabaseUnavailable
from services.notifier.claims.store import ClaimBatch, ClaimedDelivery, ClaimStore
from services.notifier.claims.tenant_slots import UNLIMITED, TenantRooms
from services.notifier.deliveries import worker as module
from services.notifier.deliveries.sender import Sender
from services.notifier.deliveries.worker import DUE_CLAIMS, MAX_CLAIMS, POLL_SECONDS, DeliveryWorker, to_label
from services.notifier.delivery_attempts.recorder import make_record
from services.notifier.delivery_attempts.result import AttemptError, AttemptResult
from services.notifier.delivery_attempts.retry_schedule import Exhausted, Rescheduled, Succeeded
from services.notifier.endpoints.due_endpoints import DueEndpoints
from services.notifier.new_deliveries.store import RECEIVERS
from tests.unit.clock import LATE
from tests.unit.notifier.samples import AT, CLAIM, RecorderStub, SenderStub


def test_a_success() -> None:
    result = AttemptResult(status_code=204, response=b"thanks", seconds=0.25)
    record = make_record(CLAIM, result, Succeeded())
    assert (record.id, record.attempt, record.status, record.delay) == (CLAIM.id, 3, "succeeded", None)
    assert (record.started_at, record.duration_ms, record.response) == (AT, 250.0, b"thanks")
    assert (record.status_code, record.error, record.counted) == (204, None, True)


def test_a_failure_is_rescheduled() -> None:
    record = make_record(CLAIM, AttemptResult(error=AttemptError.TIMEOUT), Rescheduled(5.0))
    assert (record.status, record.delay, record.counted, record.error) == ("pending", 5.0, True, "timeout")


def test_an_internal_error_does_not_count() -> None:
    assert not make_record(
        CLAIM, AttemptResult(error=AttemptError.LOCAL_FAULT), Rescheduled(5.0, counted=False)
    ).counted


def test_a_410_disables_the_subscription() -> None:
    record = make_record(
        CLAIM, AttemptResult(status_code=410, error=AttemptError.HTTP_STATUS), Exhausted(disables_webhook=True)
    )
    assert (record.status, record.disables_webhook, record.webhook_id) == ("exhausted", True, CLAIM.webhook_id)


def test_each_decision_has_a_label() -> None:
    decisions = (Succeeded(), Rescheduled(1.0), Rescheduled(1.0, counted=False), Exhausted())
    assert [to_label(decision) for decision in decisions] == ["succeeded", "failed", "postponed", "exhausted"]


def is_woken(due: DueEndpoints) -> bool:
    return due._woken.is_set()


class ClaimStoreStub(ClaimStore):
    """Claims nothing, or the same again, and returns a fixed wait."""

    def __init__(self, wait: float, claims: Sequence[ClaimedDelivery] = (), *, has_more: bool = False) -> None:
        self.wait = wait
        self.has_more = has_more
        self.claims = claims
        self.limits: asyncio.Queue[int] = asyncio.Queue()

    async def claim_due(
        self,
        limit: int,
        lease: float,
        endpoint_concurrency: int,
        endpoints: Sequence[UUID] = (),
        rooms: TenantRooms = UNLIMITED,
    ) -> ClaimBatch:
        self.limits.put_nowait(limit)
        return ClaimBatch(list(self.claims), self.wait, [], self.has_more)


@pytest.mark.parametrize(
    ("wait", "claims", "pause", "woken"),
    [
        (0.1, [CLAIM], 0.1, False),
        (60.0, [CLAIM], POLL_SECONDS, False),
        (0.0, [CLAIM], POLL_SECONDS, True),
        (0.0, [], POLL_SECONDS, False),  # what is due is of tenants that have their share
    ],
)
async def test_the_next_claim_is_when_more_is_due(
    wait: float, claims: list[ClaimedDelivery], pause: float, woken: bool
) -> None:
    worker = make_worker(ClaimStoreStub(wait, claims), RecorderStub(), DueEndpoints(), PausedSender(), 2)
    await worker.claim()
    assert (worker._pause, is_woken(worker.due)) == (pause, woken)
    await worker.stop(0.0)


async def test_the_next_claim_is_at_once_if_more_endpoints_may_be_due() -> None:
    """This one found full endpoints only. It looks at few, so others would wait for many claims."""
    worker = make_worker(ClaimStoreStub(0.0, has_more=True), RecorderStub(), DueEndpoints(), PausedSender(), 2)
    await worker.claim()
    assert is_woken(worker.due)


class PolledStore(ClaimStoreStub):
    """Each look finds nothing due, and the last one ends the loop. The first claim may fail."""

    def __init__(self, looks: int, *, fails: bool = False) -> None:
        super().__init__(60.0)
        self.looks = looks
        self.fails = fails

    async def has_due(self) -> bool:
        self.looks -= 1
        if self.looks < 0:
            raise asyncio.CancelledError
        return False

    async def claim_due(self, limit: int, *arguments: Any) -> ClaimBatch:
        found = await super().claim_due(limit, *arguments)
        if self.fails:
            self.fails = False
            raise DatabaseUnavailable
        return found


@pytest.mark.parametrize(
    ("fails", "claims"),
    [
        pytest.param(False, 1, id="none but the first while nothing is due"),
        pytest.param(True, 2, id="another one for endpoints that a failed claim left"),
    ],
)
async def test_a_poll_looks_before_it_claims(fails: bool, claims: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POLL_SECONDS", "PAUSE_SECONDS"):
        monkeypatch.setattr(module, name, 0.0)
    store, due = PolledStore(3, fails=fails), DueEndpoints()
    due.add([ids.new()])
    with pytest.raises(asyncio.CancelledError):
        await make_worker(store, RecorderStub(), due, PausedSender()).run()
    assert store.limits.qsize() == claims


async def test_one_statement_claims_a_limited_number() -> None:
    store, woken, sender, recorder = ClaimStoreStub(0.0), DueEndpoints(), SenderStub(), RecorderStub()
    worker = DeliveryWorker(
        store, sender, recorder, woken, (0.0,), timeout=1.0, concurrency=2 * MAX_CLAIMS, endpoint_concurrency=1
    )
    await worker.claim()
    with worker.reserve_for_new(MAX_CLAIMS) as first, worker.reserve_for_new(MAX_CLAIMS) as second:
        assert (first, second) == (MAX_CLAIMS, MAX_CLAIMS // 2 - 1)  # a quarter is for others that wait
    worker._has_backlog = False
    with worker.reserve_for_new(MAX_CLAIMS) as slots:
        assert (store.limits.get_nowait(), slots) == (DUE_CLAIMS, MAX_CLAIMS)
    assert is_woken(woken)


class PausedSender(Sender):
    """Every attempt succeeds after `resume` is set."""

    def __init__(self) -> None:
        self.resume = asyncio.Event()

    async def send(self, claim: ClaimedDelivery) -> AttemptResult:
        await self.resume.wait()
        return AttemptResult(status_code=204)


def make_worker(
    store: ClaimStore, recorder: RecorderStub, woken: DueEndpoints, sender: Sender, concurrency: int = 1
) -> DeliveryWorker:
    return DeliveryWorker(
        store, sender, recorder, woken, (0.0,), timeout=1.0, concurrency=concurrency, endpoint_concurrency=concurrency
    )


async def test_new_deliveries_are_sent_before_shutdown_and_never_ahead_of_the_backlog() -> None:
    sender, recorder, woken = PausedSender(), RecorderStub(), DueEndpoints()
    worker = make_worker(ClaimStoreStub(60.0), recorder, woken, sender)
    with worker.reserve_for_new(RECEIVERS) as slots:
        assert slots == 1
        stopping = asyncio.create_task(worker.stop(60.0))
        await asyncio.sleep(0)
        assert worker._stopping
        worker.start([CLAIM])
    with worker.reserve_for_new(RECEIVERS) as slots:
        assert slots == 0
    worker._stopping = False
    await worker.claim()  # no slot is free
    sender.resume.set()
    await stopping
    assert len(recorder.records) == 1
    with worker.reserve_for_new(RECEIVERS) as slots:
        assert slots == 0  # before the next claim
    assert is_woken(woken)


async def test_new_deliveries_leave_slots_to_the_loop() -> None:
    store, woken = ClaimStoreStub(60.0), DueEndpoints()
    worker = make_worker(store, RecorderStub(), woken, PausedSender(), 10)
    with worker.reserve_for_new(RECEIVERS) as first:
        assert first == RECEIVERS
        loop = asyncio.create_task(worker.run())
        assert await asyncio.wait_for(store.limits.get(), LATE) == 10 - RECEIVERS
        loop.cancel()
        with worker.reserve_for_new(100) as second:
            assert second == 10 - RECEIVERS
    assert worker.count_free_slots() == 10


async def test_no_slot_is_reserved_twice() -> None:
    class ReservingStore(ClaimStoreStub):
        async def claim_due(
            self,
            limit: int,
            lease: float,
            endpoint_concurrency: int,
            endpoints: Sequence[UUID] = (),
            rooms: TenantRooms = UNLIMITED,
        ) -> ClaimBatch:
            with worker.reserve_for_new(100) as slots:
                assert (limit, slots) == (10, 0)
            return await super().claim_due(limit, lease, endpoint_concurrency)

    store = ReservingStore(60.0)
    worker = make_worker(store, RecorderStub(), DueEndpoints(), PausedSender(), 10)
    await worker.claim()
    assert store.limits.qsize() == 1
    assert worker.count_free_slots() == 10
