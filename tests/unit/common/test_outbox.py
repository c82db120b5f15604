"""Which doorbells share a message."""

from uuid import UUID

import pytest

from common import ids, messages
from common.jobs import Priority
from common.messages import JobEvents, JobsQueued
from common.outbox import EVENTS_TOGETHER, OutboxRow, gather, merge, ring_cancel, ring_event, ring_job

PLAIN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
SAMPLED = PLAIN[:-1] + "1"


def ring(job: UUID, model: str = "echo", traceparent: str = PLAIN, together: int = 8) -> OutboxRow:
    return ring_job(job, Priority.NORMAL, model, traceparent, together)


def count(rows: list[OutboxRow]) -> list[int]:
    return sorted(len(group) for group in gather(rows))


def test_those_of_one_queue_share_one_as_many_as_may() -> None:
    rows = [ring(ids.new(), model) for model in ["echo"] * 11 + ["work"] * 3]
    assert count(rows) == [3, 3, 8]
    assert [row for group in gather(rows[:11]) for row in group] == rows[:11]
    assert count([ring(ids.new(), together=64) for _ in range(10)]) == [2, 8]


def test_what_is_traced_has_one_of_its_own() -> None:
    assert count([ring(ids.new()), ring(ids.new(), traceparent=SAMPLED), ring(ids.new())]) == [1, 2]


@pytest.mark.parametrize("together", [0, 1])
def test_jobs_of_a_model_without_batches_have_one_each(together: int) -> None:
    assert count([ring(ids.new(), together=together) for _ in range(3)]) == [1, 1, 1]


def test_events_share_one_by_their_type() -> None:
    kinds = ["job.failed"] * 2 + ["job.succeeded"] * (EVENTS_TOGETHER + 1)
    rows = [ring_event(ids.new(), kind, PLAIN) for kind in kinds]
    assert count(rows) == [1, 2, EVENTS_TOGETHER]


def test_a_message_rings_for_all_its_rows() -> None:
    one, other = ids.new(), ids.new()
    assert messages.decode(merge([ring(one), ring(other)])) == JobsQueued([one, other])
    events = [ring_event(one, "job.failed", PLAIN), ring_event(other, "job.failed", SAMPLED)]
    assert messages.decode(merge(events)) == JobEvents([(one, PLAIN), (other, SAMPLED)])
    with pytest.raises(TypeError):
        merge([ring_cancel(one, PLAIN), ring_cancel(other, PLAIN)])
