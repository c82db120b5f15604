"""Bodies of batches: every parameter of OpenAI's schema."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from common import ids
from services.gateway.openai.batches.record import BatchError
from services.gateway.openai.calls.translation import Metadata

# Only documented: `read_window` says what is wrong.
WINDOW = r"^[1-9][0-9]{0,6}[smhd]$"

FileId = Annotated[str, Meta(extra_json_schema={"pattern": ids.make_pattern(ids.Kind.FILE)})]
BatchStatus = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file whose lines are to run."""

    input_file_id: FileId
    """The file: a request in each line."""
    endpoint: str
    """The `url` that each line has: `/v1/chat/completions`, `/v1/completions`, `/v1/embeddings` or `/v1/responses`."""
    completion_window: Annotated[str, Meta(extra_json_schema={"pattern": WINDOW})]
    """How long the lines may wait, such as `24h`: a number of `s`, `m`, `h` or `d`, at most 30 days together."""
    metadata: Metadata | None = None
    """Up to 16 texts of yours, which the batch shows."""
    output_expires_after: dict[str, Any] | None = None
    """Only null: outputs are kept as long as the jobs that they are read from."""


class RequestCounts(msgspec.Struct, frozen=True):
    """The lines of a batch by what became of them."""

    total: int
    """All lines."""
    completed: int
    """Those whose job has succeeded."""
    failed: int
    """Those that were refused, and those whose job has failed, was cancelled or has expired."""


class BatchErrors(msgspec.Struct, frozen=True):
    """Why a batch failed as a whole."""

    data: list[BatchError]
    """The errors, at most 11."""
    object: Literal["list"] = "list"
    """Always `list`."""


class OpenAIBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch. Its times are in unix seconds."""

    id: str
    """The id of the batch, also in `/v1/batches`."""
    object: Literal["batch"] = "batch"
    """Always `batch`."""
    endpoint: str
    """The `url` of its lines."""
    errors: BatchErrors | None
    """Why it failed as a whole; null otherwise."""
    input_file_id: str
    """The file that its lines come from."""
    completion_window: str
    """How long the lines may wait, as the request says."""
    status: BatchStatus
    """The state."""
    output_file_id: str | None
    """The file of lines that have succeeded so far; null without any."""
    error_file_id: str | None
    """The file of all other lines that have ended so far; null without any."""
    created_at: int
    """When it was created."""
    in_progress_at: int | None
    """When its first lines became jobs; null if none did."""
    expires_at: int
    """When the time for its lines is over."""
    finalizing_at: int | None
    """When the last line ended; null until then."""
    completed_at: int | None
    """When it was completed; null in every other state."""
    failed_at: int | None
    """When it failed; null in every other state."""
    expired_at: int | None
    """When it ended after its time was over; null in every other state."""
    cancelling_at: int | None
    """When a client cancelled it; null otherwise."""
    cancelled_at: int | None
    """When the last line of a cancelled batch ended; null until then."""
    request_counts: RequestCounts
    """The lines by what became of them."""
    metadata: dict[str, str] | None
    """The `metadata` of the request."""


class OpenAIBatchList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of batches."""

    object: Literal["list"] = "list"
    """Always `list`."""
    data: list[OpenAIBatch]
    """The batches, newest first."""
    first_id: str | None
    """The id of the first one; null on an empty page."""
    last_id: str | None
    """The id of the last one: pass it as `after` to get the next page."""
    has_more: bool
    """Whether there is a next page."""


class LineResponse(msgspec.Struct, frozen=True):
    """The answer that the call alone would have got."""

    status_code: int
    """The HTTP status."""
    request_id: str
    """The id of the job; empty if there is none."""
    body: msgspec.Raw
    """The body of the answer."""


class LineError(msgspec.Struct, frozen=True):
    """Why there is no answer."""

    code: str
    """`batch_expired`, `batch_cancelled` or `erased`."""
    message: str
    """What is wrong, for people."""


class OutputLine(msgspec.Struct, frozen=True):
    """A line of the file of outputs or of errors."""

    id: str
    """The id of the line."""
    custom_id: str | None
    """The name that the line has in the input file; null if that has none."""
    response: LineResponse | None
    """The answer; null if the call was not tried."""
    error: LineError | None
    """Why it was not tried; null otherwise."""
