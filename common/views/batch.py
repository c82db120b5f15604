"""A batch as clients and receivers see it: one shape for the API and for `batch.completed`."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import asyncpg
import msgspec
from msgspec import Meta

from common import ids
from common.job_states import Status
from common.postgres import sql
from common.views.job import Time, format_optional_time, format_time

QUERIES = sql.load("common.views", "batch.sql")

Counts = Mapping[str, int]


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of `batches` that the view needs. `is_read`: no lines of its file are left to become items."""

    id: UUID
    total: int
    accepted: int
    created_at: datetime
    finished_at: datetime | None
    canceled_at: datetime | None = None
    is_read: bool = True


class BatchUrls(msgspec.Struct, frozen=True):
    """The URLs of a batch."""

    self: str
    """The batch itself."""
    jobs: str
    """A list of the jobs of the batch."""
    results: str
    """A line for each item of the batch, once all jobs have ended."""


class BatchView(msgspec.Struct, frozen=True, kw_only=True):
    """A batch, and how far its jobs are."""

    id: str
    """The id of the batch."""
    status: Literal["processing", "completed"]
    """`completed` once every job has ended for the first time."""
    total: int
    """The items in the request."""
    accepted: int
    """The items that became jobs."""
    counts: dict[Status, int]
    """The jobs by status. Jobs whose retention is over are not counted."""
    created_at: Time
    """When the batch was submitted."""
    finished_at: Time | None
    """When the batch was completed; null until then."""
    canceled_at: Time | None
    """When a client canceled the batch; null otherwise."""
    urls: BatchUrls
    """Where to read the batch, its jobs and the results of all items."""


class BatchBody(msgspec.Struct, frozen=True):
    """The body of a `batch.completed` event."""

    type: Annotated[str, Meta(extra_json_schema={"const": "batch.completed"})]
    """The type of the event."""
    timestamp: Time
    """When the last job ended."""
    data: BatchView
    """The batch."""


def view_batch(row: BatchRow, counts: Counts, public: str) -> BatchView:
    """Return the view of a batch. `public` precedes the paths."""
    shown = ids.encode(ids.Kind.BATCH, row.id)
    path = f"{public}/v1/batches/{shown}"
    return BatchView(
        id=shown,
        status="processing" if row.finished_at is None else "completed",
        total=row.total,
        accepted=row.accepted,
        counts={status: counts.get(status, 0) for status in Status},
        created_at=format_time(row.created_at),
        finished_at=format_optional_time(row.finished_at),
        canceled_at=format_optional_time(row.canceled_at),
        urls=BatchUrls(path, f"{public}/v1/jobs?batch={shown}", f"{path}/results"),
    )


def read_batch(record: Mapping[str, object]) -> BatchRow:
    """Return the row in a record, which may have more columns."""
    return msgspec.convert(record, BatchRow, builtin_types=(UUID, datetime))


def read_counts(found: Iterable[asyncpg.Record]) -> dict[UUID, dict[str, int]]:
    """Return the records of count_jobs by batch."""
    counts: dict[UUID, dict[str, int]] = {}
    for record in found:
        counts.setdefault(record["batch_id"], {})[record["status"]] = record["jobs"]
    return counts
