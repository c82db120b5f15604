"""The state of a batch in OpenAI's words."""

from datetime import timedelta
from typing import Any

import pytest

from common.job_states import Status
from services.gateway.openai.batches.record import BatchError
from services.gateway.openai.batches.store import RequestedBatch, group_batches
from services.gateway.openai.batches.view import view_batch
from tests.unit.gateway.openai.batches.jobs import AT, requested

END = AT + timedelta(minutes=5)
RUNNING: dict[str, int] = {Status.SUCCEEDED: 4, Status.PROCESSING: 1, Status.QUEUED: 5}
ENDED: dict[str, int] = {Status.SUCCEEDED: 7, Status.FAILED: 2, Status.CANCELED: 1}
FAILED = {"errors": [BatchError("empty_file", "no line")]}


@pytest.mark.parametrize(
    ("batch", "counts", "status"),
    [
        (requested(), {}, "validating"),
        (requested(items=5), RUNNING, "in_progress"),
        (requested(items=5), {Status.SUCCEEDED: 5}, "in_progress"),  # other lines are left
        (requested(items=10), RUNNING, "in_progress"),
        (requested(items=10), ENDED, "finalizing"),
        (requested(items=10, finished_at=END), ENDED, "completed"),
        (requested(items=10, accepted=0, finished_at=END), {}, "completed"),  # every line was wrong
        (requested(FAILED), {}, "failed"),
        (requested(FAILED, finished_at=END), {}, "failed"),
        (requested(FAILED, items=5, is_read=True), RUNNING, "in_progress"),  # its file was deleted
        (requested(items=5, canceled_at=AT), RUNNING, "cancelling"),
        (requested(items=10, canceled_at=AT, finished_at=END), ENDED, "cancelled"),
        (requested({"has_expired": True}, items=10), RUNNING, "in_progress"),
        (requested({"has_expired": True}, items=10, finished_at=END), ENDED, "expired"),
        (requested(items=10, finished_at=END), {Status.SUCCEEDED: 9, Status.EXPIRED: 1}, "expired"),
        (requested({"has_expired": True}, items=10, canceled_at=AT, finished_at=END), ENDED, "cancelled"),
    ],
)
def test_the_state_follows_from_the_row_and_its_jobs(
    batch: RequestedBatch, counts: dict[str, int], status: str
) -> None:
    assert view_batch(batch, counts).status == status


def test_a_batch_shows_what_there_is() -> None:
    batch = requested({"metadata": {"a": "b"}}, items=8, accepted=6)
    counts: dict[str, int] = {Status.SUCCEEDED: 3, Status.FAILED: 1, Status.QUEUED: 2}
    view = view_batch(batch, counts)
    letters = view.id.removeprefix("batch_")
    assert (view.output_file_id, view.error_file_id) == (f"file_output_{letters}", f"file_errors_{letters}")
    shown = view.request_counts
    assert (shown.total, shown.completed, shown.failed) == (10, 3, 1 + 2)
    assert (view.metadata, view.errors, view.object, view.completion_window) == ({"a": "b"}, None, "batch", "24h")
    assert (view.created_at, view.expires_at - view.created_at) == (int(AT.timestamp()), 86_400)


def test_a_batch_without_outputs_or_errors_has_no_files() -> None:
    view = view_batch(requested(items=2), {Status.QUEUED: 2})
    assert (view.output_file_id, view.error_file_id) == (None, None)


@pytest.mark.parametrize(
    ("record", "row", "field"),
    [
        ({}, {}, "completed_at"),
        (FAILED, {}, "failed_at"),
        ({"has_expired": True}, {}, "expired_at"),
        ({}, {"canceled_at": AT}, "cancelled_at"),
    ],
)
def test_an_end_has_the_time_of_its_kind_only(record: dict[str, Any], row: dict[str, Any], field: str) -> None:
    view = view_batch(requested(record, items=10, finished_at=END, **row), ENDED)
    ends = {name: getattr(view, name) for name in ("completed_at", "failed_at", "expired_at", "cancelled_at")}
    assert {name for name, at in ends.items() if at is not None} == {field}
    assert ends[field] == int(END.timestamp())


def test_batches_are_counted_in_groups_of_a_bounded_size() -> None:
    sizes = [0, 100_000, 100_000, 1, 200_000, 50]
    rows = [requested(accepted=size, total=size).row for size in sizes]
    assert [[row.accepted for row in group] for group in group_batches(rows)] == [
        [0, 100_000, 100_000],
        [1],
        [200_000],
        [50],
    ]
    assert group_batches([]) == []
