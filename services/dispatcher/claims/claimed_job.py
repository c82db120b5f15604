"""A job with its claim."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from common.locations.location import Location, parse_prefix
from common.locations.outputs import make_attempt_folder
from common.views.job import JobRow, read_job

ClaimKey = tuple[UUID, int]  # a job and its claim


class ClaimedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job with its claim: the row of its view, and what an attempt needs. Times are in seconds."""

    row: JobRow
    claim: int
    timeout: float
    interruptions: int
    probation: float | None  # a suspected poison job, as of the claim or the last heartbeat
    input_bytes: int
    passed: bool  # it was claimed before a larger job whose turn it was, but which did not fit
    initial_delay: float
    max_delay: float
    fallback_model: str | None
    tensors: bytes | None
    parameters: bytes | None
    output_location: str | None = None  # s3://bucket/folder/
    wants_started: bool
    worker: str | None = None

    @property
    def started_at(self) -> datetime:
        assert self.row.started_at is not None, "a claimed job has started"
        return self.row.started_at

    @property
    def output_folder(self) -> Location | None:
        """The folder for the outputs of this attempt. None: they stay in Charonia."""
        if self.output_location is None:
            return None
        return make_attempt_folder(parse_prefix(self.output_location), self.row.id, self.claim)

    def seconds_queued(self) -> float:
        """Return the seconds from when the job could run to its claim, by the database's clock."""
        return max(0.0, (self.started_at - self.row.run_at).total_seconds())

    def time_after(self, seconds: float) -> datetime:
        """Return the database's time this long after the claim. The dispatcher's own clock decides nothing."""
        return self.started_at + timedelta(seconds=seconds)


def read_claimed_job(record: Mapping[str, object]) -> ClaimedJob:
    """Return the job in a record with the columns of `jobs` and its inputs."""
    own = {name: record[name] for name in ClaimedJob.__struct_fields__ if name != "row"}
    return ClaimedJob(row=read_job(record), **own)  # type: ignore[arg-type]
