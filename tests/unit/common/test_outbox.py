"""Which wake-ups share a message."""

from uuid import UUID

import pytest

from common import ids
from common.jobs import Priority
from common.outbox import (
    MAX_EVENTS_PER_MESSAGE,
    OutboxRow,
    cancel_message,
    event_wake_up,
    group_rows,
    job_wake_up,
    merge_bodies,
)
from common.rabbitmq import messages
from common.rabbitmq.messages import JobEvents, JobsQueued

PLAIN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
SAMPLED = PLAIN[:-1] + "1"


def wake_up(job: UUID, model: str = "echo", traceparent: str = PLAIN, batch_size: int = 8) -> OutboxRow:
    return job_wake_up(job, Priority.NORMAL, model, traceparent, batch_size)


def count(rows: list[OutboxRow]) -> list[int]:
    return sorted(len(group) for group in group_rows(rows))


def test_wake_ups_of_one_queue_share_a_message_up_to_the_batch_size() -> None:
    rows = [wake_up(ids.new(), model) for model in ["echo"] * 11 + ["work"] * 3]
    assert count(rows) == [3, 3, 8]
    assert [row for group in group_rows(rows[:11]) for row in group] == rows[:11]
    assert count([wake_up(ids.new(), batch_size=64) for _ in range(10)]) == [2, 8]


def test_a_sampled_wake_up_has_a_message_of_its_own() -> None:
    assert count([wake_up(ids.new()), wake_up(ids.new(), traceparent=SAMPLED), wake_up(ids.new())]) == [1, 2]


@pytest.mark.parametrize("batch_size", [0, 1])
def test_jobs_of_a_model_without_batches_have_a_message_each(batch_size: int) -> None:
    assert count([wake_up(ids.new(), batch_size=batch_size) for _ in range(3)]) == [1, 1, 1]


def test_events_of_one_type_share_a_message() -> None:
    kinds = ["job.failed"] * 2 + ["job.succeeded"] * (MAX_EVENTS_PER_MESSAGE + 1)
    rows = [event_wake_up(ids.new(), kind, PLAIN) for kind in kinds]
    assert count(rows) == [1, 2, MAX_EVENTS_PER_MESSAGE]


def test_a_message_names_all_its_rows() -> None:
    one, other = ids.new(), ids.new()
    assert messages.decode(merge_bodies([wake_up(one), wake_up(other)])) == JobsQueued([one, other])
    events = [event_wake_up(one, "job.failed", PLAIN), event_wake_up(other, "job.failed", SAMPLED)]
    assert messages.decode(merge_bodies(events)) == JobEvents([(one, PLAIN), (other, SAMPLED)])
    with pytest.raises(TypeError):
        merge_bodies([cancel_message(one, PLAIN), cancel_message(other, PLAIN)])
