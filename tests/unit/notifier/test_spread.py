"""The waits between attempts, by a clock that only these tests move."""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import msgspec
import pytest

from services.notifier.outbound import Outbound
from services.notifier.outcome import Fault, Outcome
from services.notifier.schedule import Again, Exhausted, decide
from services.notifier.sender import Sender
from services.notifier.settings import NotifierSettings
from services.notifier.store import Claim, Store
from tests.unit.notifier.samples import CLAIM, Notes

PLAN: tuple[float, ...] = next(
    field.default for field in msgspec.structs.fields(NotifierSettings) if field.name == "delivery_schedule"
)
START = datetime(2026, 11, 20, tzinfo=UTC)
FAILED = Outcome(status_code=500, fault=Fault.HTTP_STATUS)
TOGETHER = 1000
TENTHS = 10


@pytest.mark.parametrize("seed", range(20))
def test_every_wait_of_the_schedule_is_within_a_fifth_of_what_is_documented(seed: int) -> None:
    chance, clock = random.Random(seed), 0.0  # noqa: S311 -- a test's
    for tries, planned in enumerate(PLAN[1:]):
        now = START + timedelta(seconds=clock)
        verdict = decide(FAILED, tries, clock, PLAN, random=chance.random(), now=now)
        assert isinstance(verdict, Again)
        assert planned * 0.8 <= verdict.delay <= planned * 1.2
        clock += verdict.delay
    assert 2.5 * 86_400 < clock < 4 * 86_400
    assert decide(FAILED, len(PLAN) - 1, clock, PLAN, random=0.5, now=START) == Exhausted()


class Refused(Sender):
    """Every attempt fails at once."""

    def __init__(self) -> None:
        pass

    async def send(self, claim: Claim) -> Outcome:
        return FAILED


async def test_what_failed_together_does_not_come_back_together() -> None:
    nowhere = cast("Store", None)  # nothing is claimed here
    notes = Notes()
    outbound = Outbound(nowhere, Refused(), notes, asyncio.Event(), PLAN, timeout=1.0, concurrency=1, each=1)
    claims = [msgspec.structs.replace(CLAIM, id=UUID(int=number), tries=0) for number in range(TOGETHER)]
    await asyncio.gather(*(outbound.deliver(claim) for claim in claims))
    delays = [record.delay or 0.0 for record in notes.records]
    assert len(delays) == TOGETHER
    assert all(PLAN[1] * 0.8 <= delay <= PLAN[1] * 1.2 for delay in delays)
    tenths = Counter(int((delay / PLAN[1] - 0.8) / 0.4 * TENTHS) for delay in delays)
    assert len(tenths) >= TENTHS
    assert max(tenths.values()) < 2 * TOGETHER / TENTHS  # ten standard deviations above what is even
