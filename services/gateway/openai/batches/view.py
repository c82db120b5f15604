"""Shows a batch as OpenAI has it: its state follows from its row and the counts of its jobs. Pure."""

from datetime import datetime

from common.job_states import TERMINAL, Status
from common.views.batch import Counts
from services.gateway.openai.batches.record import BatchRecord, read_record
from services.gateway.openai.batches.schemas import BatchErrors, BatchStatus, OpenAIBatch, RequestCounts
from services.gateway.openai.batches.store import RequestedBatch
from services.gateway.openai.ids import Prefix, encode

NOT_SUCCEEDED = tuple(status for status in Status if status in TERMINAL and status is not Status.SUCCEEDED)


def find_status(batch: RequestedBatch, record: BatchRecord, counts: Counts) -> BatchStatus:
    """Return the state of a batch."""
    row = batch.row
    waits = any(count for status, count in counts.items() if status not in TERMINAL)
    if record.errors and not waits:
        return "failed"
    if row.canceled_at is not None:
        return "cancelling" if row.finished_at is None else "cancelled"
    if row.finished_at is not None:
        return "expired" if record.has_expired or counts.get(Status.EXPIRED) else "completed"
    if not batch.items:
        return "validating"
    return "finalizing" if row.is_read and not waits else "in_progress"


def view_batch(batch: RequestedBatch, counts: Counts) -> OpenAIBatch:
    """Return a batch with the files that it has so far."""
    row, record = batch.row, read_record(batch.request)
    status = find_status(batch, record, counts)
    completed = counts.get(Status.SUCCEEDED, 0)
    failed = batch.items - row.accepted + sum(counts.get(each, 0) for each in NOT_SUCCEEDED)
    ended = to_seconds(row.finished_at)
    return OpenAIBatch(
        id=encode(Prefix.BATCH, row.id),
        endpoint=record.endpoint,
        errors=BatchErrors(list(record.errors)) if record.errors else None,
        input_file_id=encode(Prefix.FILE, batch.input_file),
        completion_window=record.completion_window,
        status=status,
        output_file_id=encode(Prefix.OUTPUT, row.id) if completed else None,
        error_file_id=encode(Prefix.ERRORS, row.id) if failed else None,
        created_at=int(row.created_at.timestamp()),
        in_progress_at=int(row.created_at.timestamp()) if batch.items else None,
        expires_at=int(batch.expires_at.timestamp()),
        finalizing_at=ended if status in ("completed", "expired", "cancelled") else None,
        completed_at=ended if status == "completed" else None,
        failed_at=(ended or int(row.created_at.timestamp())) if status == "failed" else None,
        expired_at=ended if status == "expired" else None,
        cancelling_at=to_seconds(row.canceled_at),
        cancelled_at=ended if status == "cancelled" else None,
        request_counts=RequestCounts(row.total, completed, failed),
        metadata=record.metadata,
    )


def to_seconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp())
