"""Checks a line of a batch, and makes a job of it or the problem why there is none."""

from http import HTTPStatus
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta

from common.jobs.new_job import NewJob
from services.gateway.batches.checks import MAX_ITEM_ERRORS, add_to_batch
from services.gateway.batches.parse import read_custom_id
from services.gateway.batches.schemas import CustomId, ItemProblem
from services.gateway.batches.store import NewItem
from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import FieldError, Problem, name_type, shorten
from services.gateway.jobs.parse import SubmitContext
from services.gateway.openai.batches.endpoints import BatchCall
from services.gateway.openai.batches.record import BatchRecord, has_bit
from services.gateway.openai.batches.source import MAX_LINE, Line
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.submission import Submission
from services.gateway.openai.problems import unsupported

LINE = "the line"
EXPIRED, CANCELED = "batch_expired", "batch_cancelled"  # OpenAI's codes of lines that never ran
REASONS = {
    EXPIRED: "the completion window was over before this request ran; send it in a new batch",
    CANCELED: "it was cancelled before this request had its answer",
}


class LineRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the input file."""

    custom_id: CustomId
    method: Literal["POST"]
    url: Annotated[str, Meta(examples=[Endpoint.CHAT.value])]
    body: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]


class LineBody(msgspec.Struct, frozen=True):
    """What the body of a line may not ask for."""

    stream: Any = None
    background: Any = None
    previous_response_id: Any = None


class LineProblem(ItemProblem, frozen=True):
    """Why a line has no job. `status` is that of the call alone; 0 if the call was not tried."""

    status: int = 0


class CheckedLine(NamedTuple):
    """A line as an item, with its job if it has one. `end` is the place where the next line begins."""

    item: NewItem
    job: NewJob | None
    end: int


class LineChecker:
    """Checks lines of one batch."""

    def __init__(
        self, submission: Submission, call: BatchCall, record: BatchRecord, context: SubmitContext, seconds: float
    ) -> None:
        """A job that has not begun after `seconds` expires."""
        self._submission = submission
        self._call = call
        self._record = record
        self._context = context
        self._seconds = seconds

    async def check(self, batch_id: UUID, index: int, line: Line) -> CheckedLine:
        """Return a line as an item. Raises Unavailable."""
        try:
            request = self._read(index, line)
            made = await self._submission.translate(bytes(request.body), self._context, self._call.translate)
            job = add_to_batch(msgspec.structs.replace(made.job, expires_in=self._seconds), batch_id)
        except Problem as problem:
            return refuse_line(index, line, describe(problem))
        return CheckedLine(NewItem(index, job.id, request.custom_id), job, line.end)

    def _read(self, index: int, line: Line) -> LineRequest:
        """Return the request of a line. Raises Problem (400, 413, 422)."""
        if line.text is None:
            text = f"the line has more than {MAX_LINE} bytes; send less, or split it"
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)
        request: LineRequest = decode_body(line.text, LineRequest, LINE)
        if has_bit(self._record.duplicates, index):
            text = "is that of an earlier line, too; each line needs its own"
            raise Problem(
                HTTPStatus.BAD_REQUEST,
                "duplicate_custom_id",
                f"custom_id: {text}",
                errors=[FieldError("/custom_id", text)],
            )
        if request.url != self._record.endpoint:
            text = f"is '{request.url[:100]}'; the endpoint of the batch is '{self._record.endpoint}'"
            raise Problem(HTTPStatus.BAD_REQUEST, "url_mismatch", f"url: {text}", errors=[FieldError("/url", text)])
        body: LineBody = decode_body(bytes(request.body), LineBody, "`body`")
        if body.stream:
            raise unsupported(FieldError("/stream", "a batch has no streams; leave it out"))
        if body.background:
            raise unsupported(FieldError("/background", "a batch runs in the background anyway; leave it out"))
        if body.previous_response_id is not None:
            text = "a line of a batch continues no response; send the messages as `input`"
            raise unsupported(FieldError("/previous_response_id", text))
        return request


def refuse_line(index: int, line: Line, problem: LineProblem) -> CheckedLine:
    """Return a line as an item without a job."""
    custom_id = None if line.text is None else read_custom_id(line.text)
    return CheckedLine(NewItem(index, None, custom_id, problem), None, line.end)


def describe(problem: Problem) -> LineProblem:
    fields = [shorten(error) for error in problem.errors[:MAX_ITEM_ERRORS]]
    return LineProblem(name_type(problem), problem.detail[:500], fields, problem.status)


def explain(code: str) -> LineProblem:
    """Return the problem of a line that was not tried, by its code."""
    return LineProblem(f"urn:charonia:problem:{code}", REASONS[code], [])
