"""What is written down of an attempt, and when the next claim is."""

import asyncio
from typing import Any, cast

import pytest

from services.notifier.outbound import MOST, OFFERED, POLL_SECONDS, Outbound, name_result
from services.notifier.outcome import Fault, Outcome
from services.notifier.record import write_record
from services.notifier.schedule import Again, Exhausted, Succeeded
from services.notifier.sender import Sender
from services.notifier.store import Claim, Claimed, Store
from tests.unit.notifier.samples import AT, CLAIM, Notes


def test_a_success() -> None:
    outcome = Outcome(status_code=204, response=b"thanks", seconds=0.25)
    record = write_record(CLAIM, outcome, Succeeded())
    assert (record.id, record.attempt, record.status, record.delay) == (CLAIM.id, 3, "succeeded", None)
    assert (record.started_at, record.duration_ms, record.response) == (AT, 250.0, b"thanks")
    assert (record.status_code, record.error, record.counted) == (204, None, True)


def test_a_failure_comes_back() -> None:
    record = write_record(CLAIM, Outcome(fault=Fault.TIMEOUT), Again(5.0))
    assert (record.status, record.delay, record.counted, record.error) == ("pending", 5.0, True, "timeout")


def test_our_own_fault_does_not_count() -> None:
    assert not write_record(CLAIM, Outcome(fault=Fault.LOCAL_FAULT), Again(5.0, counted=False)).counted


def test_a_receiver_that_wants_no_more() -> None:
    record = write_record(CLAIM, Outcome(status_code=410, fault=Fault.HTTP_STATUS), Exhausted(gone=True))
    assert (record.status, record.gone, record.webhook_id) == ("exhausted", True, CLAIM.webhook_id)


def test_results_have_names() -> None:
    verdicts = (Succeeded(), Again(1.0), Again(1.0, counted=False), Exhausted())
    assert [name_result(verdict) for verdict in verdicts] == ["succeeded", "failed", "postponed", "exhausted"]


class Claimable(Store):
    """Says when more can be claimed."""

    def __init__(self, wait: float) -> None:
        self.wait = wait
        self.asked: asyncio.Queue[int] = asyncio.Queue()

    async def claim_deliveries(self, limit: int, lease: float, concurrency: int) -> Claimed:
        self.asked.put_nowait(limit)
        return Claimed([], self.wait)


@pytest.mark.parametrize(
    ("wait", "pause", "woken"), [(0.1, 0.1, False), (60.0, POLL_SECONDS, False), (0.0, POLL_SECONDS, True)]
)
async def test_the_next_look_is_when_more_can_be_claimed(wait: float, pause: float, woken: bool) -> None:
    nothing = cast("Any", None)  # nothing is sent here
    outbound = Outbound(Claimable(wait), nothing, nothing, asyncio.Event(), (0.0,), timeout=1.0, concurrency=1, each=1)
    await outbound.claim()
    assert (outbound.pause, outbound.woken.is_set()) == (pause, woken)


async def test_one_statement_claims_so_many_and_the_next_follows_at_once() -> None:
    store, woken, nothing = Claimable(0.0), asyncio.Event(), cast("Any", None)
    outbound = Outbound(store, nothing, nothing, woken, (0.0,), timeout=1.0, concurrency=2 * MOST, each=1)
    await outbound.claim()
    with outbound.offer(MOST) as room:
        assert room == 0  # others wait for a place
    outbound.hungry = False
    with outbound.offer(MOST) as room:
        assert (store.asked.get_nowait(), room) == (MOST, MOST)
    assert woken.is_set()


class Slow(Sender):
    """Every attempt succeeds once it is let."""

    def __init__(self) -> None:
        self.let = asyncio.Event()

    async def send(self, claim: Claim) -> Outcome:
        await self.let.wait()
        return Outcome(status_code=204)


def make_outbound(store: Store, notes: Notes, woken: asyncio.Event, sender: Sender, concurrency: int = 1) -> Outbound:
    return Outbound(store, sender, notes, woken, (0.0,), timeout=1.0, concurrency=concurrency, each=concurrency)


async def test_what_others_claim_is_sent_before_the_end_and_never_ahead_of_what_waits() -> None:
    slow, notes, woken = Slow(), Notes(), asyncio.Event()
    outbound = make_outbound(Claimable(60.0), notes, woken, slow)
    with outbound.offer(1) as room:
        assert room == 1
        stopping = asyncio.create_task(outbound.stop(60.0))
        await asyncio.sleep(0)
        assert outbound.stopping
        outbound.begin([CLAIM])
    with outbound.offer(1) as room:
        assert room == 0
    outbound.stopping = False
    await outbound.claim()  # has no room
    slow.let.set()
    await stopping
    assert len(notes.records) == 1
    with outbound.offer(1) as room:
        assert room == 0  # before the next look
    assert woken.is_set()


async def test_who_fans_out_for_long_leaves_places_to_the_loop() -> None:
    store, woken = Claimable(60.0), asyncio.Event()
    outbound = make_outbound(store, Notes(), woken, Slow(), 10)
    with outbound.offer(1) as first:
        assert first == OFFERED
        loop = asyncio.create_task(outbound.run())
        assert await asyncio.wait_for(store.asked.get(), 5) == 10 - OFFERED
        loop.cancel()
        with outbound.offer(100) as second:
            assert second == 5  # of the 6 that are left
    assert outbound.count_room() == 10


async def test_no_place_is_given_twice() -> None:
    class Asked(Claimable):
        async def claim_deliveries(self, limit: int, lease: float, concurrency: int) -> Claimed:
            with outbound.offer(100) as room:
                assert (limit, room) == (10, 0)
            return await super().claim_deliveries(limit, lease, concurrency)

    store = Asked(60.0)
    outbound = make_outbound(store, Notes(), asyncio.Event(), Slow(), 10)
    await outbound.claim()
    assert store.asked.qsize() == 1
    assert outbound.count_room() == 10
