"""A batch as its tenant sees it: one shape for the API and for the event that tells of its end."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal
from uuid import UUID

import asyncpg
import msgspec

from common import ids, sql
from common.job_view import show_optional, show_time
from common.jobs import Status

QUERIES = sql.load("common", "batch_view.sql")

Counts = Mapping[str, int]


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    total: int
    accepted: int
    created_at: datetime
    finished_at: datetime | None


class BatchUrls(msgspec.Struct, frozen=True):
    self: str
    jobs: str


class BatchView(msgspec.Struct, frozen=True, kw_only=True):
    """`total` jobs were asked for, `accepted` are its jobs; `counts` are theirs, of those that are still kept."""

    id: str
    status: Literal["processing", "completed"]
    total: int
    accepted: int
    counts: dict[Status, int]
    created_at: str
    finished_at: str | None
    urls: BatchUrls


class BatchBody(msgspec.Struct, frozen=True):
    """The body of a `batch.completed`."""

    type: str
    timestamp: str
    data: BatchView


def view_batch(row: BatchRow, counts: Counts, public: str) -> BatchView:
    """`public` goes before the paths."""
    shown = ids.show(ids.Kind.BATCH, row.id)
    return BatchView(
        id=shown,
        status="processing" if row.finished_at is None else "completed",
        total=row.total,
        accepted=row.accepted,
        counts={status: counts.get(status, 0) for status in Status},
        created_at=show_time(row.created_at),
        finished_at=show_optional(row.finished_at),
        urls=BatchUrls(f"{public}/v1/batches/{shown}", f"{public}/v1/jobs?batch={shown}"),
    )


def read_batch(record: Mapping[str, object]) -> BatchRow:
    """The row in a record that has these columns, others ignored."""
    return msgspec.convert(record, BatchRow, builtin_types=(UUID, datetime))


def read_counts(found: Iterable[asyncpg.Record]) -> dict[UUID, dict[str, int]]:
    """What count_jobs found, by batch."""
    counts: dict[UUID, dict[str, int]] = {}
    for record in found:
        counts.setdefault(record["batch_id"], {})[record["status"]] = record["jobs"]
    return counts
