"""The waits between attempts, on a clock that the tests control."""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest

from services.notifier.claims.store import ClaimedDelivery, ClaimStore
from services.notifier.deliveries.worker import DeliveryWorker
from services.notifier.delivery_attempts.result import AttemptError, AttemptResult
from services.notifier.delivery_attempts.retry_schedule import Exhausted, Rescheduled, decide
from services.notifier.endpoints.due_endpoints import DueEndpoints
from services.notifier.settings import NotifierSettings
from tests.unit.fake_database import FakeDatabase
from tests.unit.notifier.samples import CLAIM, RecorderStub, SenderStub

SCHEDULE: tuple[float, ...] = next(
    field.default for field in msgspec.structs.fields(NotifierSettings) if field.name == "delivery_schedule"
)
START = datetime(2026, 11, 20, tzinfo=UTC)
FAILED = AttemptResult(status_code=500, error=AttemptError.HTTP_STATUS)
TOGETHER = 1000
TENTHS = 10


@pytest.mark.parametrize("seed", range(20))
def test_every_wait_is_within_a_fifth_of_the_documented_one(seed: int) -> None:
    chance, clock = random.Random(seed), 0.0  # noqa: S311 -- not a secret
    for tries, planned in enumerate(SCHEDULE[1:]):
        now = START + timedelta(seconds=clock)
        decision = decide(FAILED, tries, clock, SCHEDULE, random=chance.random(), now=now)
        assert isinstance(decision, Rescheduled)
        assert planned * 0.8 <= decision.delay <= planned * 1.2
        clock += decision.delay
    assert 2.5 * 86_400 < clock < 4 * 86_400
    assert decide(FAILED, len(SCHEDULE) - 1, clock, SCHEDULE, random=0.5, now=START) == Exhausted()


class FailingSender(SenderStub):
    """Every attempt fails at once."""

    async def send(self, claim: ClaimedDelivery) -> AttemptResult:
        return FAILED


async def test_deliveries_that_failed_together_are_spread_out() -> None:
    recorder = RecorderStub()
    worker = DeliveryWorker(
        ClaimStore(FakeDatabase()),
        FailingSender(),
        recorder,
        DueEndpoints(),
        SCHEDULE,
        timeout=1.0,
        concurrency=1,
        endpoint_concurrency=1,
    )
    claims = [msgspec.structs.replace(CLAIM, id=UUID(int=number), tries=0) for number in range(TOGETHER)]
    await asyncio.gather(*(worker.deliver(claim) for claim in claims))
    delays = [record.delay or 0.0 for record in recorder.records]
    assert len(delays) == TOGETHER
    assert all(SCHEDULE[1] * 0.8 <= delay <= SCHEDULE[1] * 1.2 for delay in delays)
    tenths = Counter(int((delay / SCHEDULE[1] - 0.8) / 0.4 * TENTHS) for delay in delays)
    assert len(tenths) >= TENTHS
    assert max(tenths.values()) < 2 * TOGETHER / TENTHS  # ten standard deviations above the mean
