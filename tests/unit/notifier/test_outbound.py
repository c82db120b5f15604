"""What is written down of an attempt, and when the next claim is."""

from typing import Any, cast

import pytest

from services.notifier.outbound import POLL_SECONDS, Outbound, name_result, write_record
from services.notifier.outcome import Fault, Outcome
from services.notifier.schedule import Again, Exhausted, Succeeded
from services.notifier.store import Claimed, Store
from tests.unit.notifier.samples import AT, CLAIM


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

    async def claim_deliveries(self, limit: int, lease: float, concurrency: int) -> Claimed:
        return Claimed([], self.wait)


@pytest.mark.parametrize(
    ("wait", "pause", "woken"), [(0.1, 0.1, False), (60.0, POLL_SECONDS, False), (0.0, POLL_SECONDS, True)]
)
async def test_the_next_look_is_when_more_can_be_claimed(wait: float, pause: float, woken: bool) -> None:
    nothing = cast("Any", None)  # nothing is sent here
    outbound = Outbound(Claimable(wait), nothing, (0.0,), timeout=1.0, concurrency=1, each=1)
    await outbound.claim(nothing)
    assert (outbound.pause, outbound.woken.is_set()) == (pause, woken)
