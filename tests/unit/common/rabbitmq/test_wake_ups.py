"""Which wake-ups share a message."""

import pytest

from common import ids
from common.job_states import Priority
from common.rabbitmq.messages import CancelJob, EventsRecorded, JobsQueued, QueuedJob, RecordedEvent
from common.rabbitmq.wake_ups import (
    MAX_EVENTS_PER_MESSAGE,
    WakeUp,
    cancel_wake_up,
    event_wake_up,
    group_wake_ups,
    job_wake_up,
    merge_messages,
)

PLAIN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
SAMPLED = PLAIN[:-1] + "1"
JOB = QueuedJob(ids.new(), ids.new())


def wake_up(model: str = "echo", traceparent: str = PLAIN, batch_size: int = 8) -> WakeUp:
    return job_wake_up(JOB, Priority.NORMAL, model, traceparent, batch_size)


def count(wake_ups: list[WakeUp]) -> list[int]:
    return sorted(len(group) for group in group_wake_ups(wake_ups))


def test_wake_ups_of_one_queue_share_a_message_up_to_the_batch_size() -> None:
    assert count([wake_up(model) for model in ["echo"] * 11 + ["work"] * 3]) == [3, 3, 8]
    assert count([wake_up(batch_size=64) for _ in range(10)]) == [2, 8]


def test_a_sampled_wake_up_has_a_message_of_its_own() -> None:
    assert count([wake_up(), wake_up(traceparent=SAMPLED), wake_up()]) == [1, 2]


@pytest.mark.parametrize("batch_size", [0, 1])
def test_jobs_of_a_model_without_batches_have_a_message_each(batch_size: int) -> None:
    assert count([wake_up(batch_size=batch_size) for _ in range(3)]) == [1, 1, 1]


def test_events_of_one_type_share_a_message() -> None:
    kinds = ["job.failed"] * 2 + ["job.succeeded"] * (MAX_EVENTS_PER_MESSAGE + 1)
    assert count([event_wake_up(ids.new(), kind, PLAIN) for kind in kinds]) == [1, 2, MAX_EVENTS_PER_MESSAGE]


def test_each_cancel_has_a_message_of_its_own() -> None:
    cancels = [cancel_wake_up(ids.new(), PLAIN) for _ in range(2)]
    assert count(cancels) == [1, 1]
    assert isinstance(merge_messages(cancels[:1]), CancelJob)


def test_a_message_names_its_jobs_or_events() -> None:
    one, other = ids.new(), ids.new()
    assert merge_messages([wake_up(), wake_up()]) == JobsQueued([JOB, JOB])
    events = [event_wake_up(one, "job.failed", PLAIN), event_wake_up(other, "job.failed", SAMPLED)]
    assert merge_messages(events) == EventsRecorded([RecordedEvent(one, PLAIN), RecordedEvent(other, SAMPLED)])
