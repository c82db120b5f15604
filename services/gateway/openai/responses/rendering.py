"""Writes responses. Pure."""

from http import HTTPStatus
from typing import Any, Literal, NamedTuple

import msgspec

from common.job_states import Status
from common.jobs.job import Job
from services.gateway.open_inference.inference import STATUS_BY_ERROR
from services.gateway.openai.calls.failures import REFUSED, read_refusal
from services.gateway.openai.calls.record import Endpoint
from services.gateway.openai.calls.translation import SHOWN_TIERS
from services.gateway.openai.ids import Prefix, encode
from services.gateway.openai.kinds.pieces import TokenUsage, Transcript
from services.gateway.openai.responses.echo import Echo
from services.gateway.openai.responses.views import (
    IncompleteDetails,
    OpenAIResponse,
    OutputMessage,
    OutputText,
    ResponseFailure,
    ResponseStatus,
    ResponseUsage,
)

INCOMPLETE: dict[str, Literal["max_output_tokens", "content_filter"]] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
}
ENDS: dict[Status, ResponseStatus] = {
    Status.SUCCEEDED: "completed",
    Status.FAILED: "failed",
    Status.EXPIRED: "failed",
    Status.CANCELED: "cancelled",
}


class Answer(NamedTuple):
    """What a model has written: the whole text, and what it says of it."""

    text: str
    transcript: Transcript


def read_status(row: Job, answer: Answer | None = None) -> ResponseStatus:
    """Return the status of a response. That of a job that has succeeded depends on its answer.

    A job in the queue again, after an attempt, is in progress. So is one that is asked to stop and still runs.
    """
    if answer is not None and answer.transcript.finish_reason in INCOMPLETE:
        return "incomplete"
    if row.status is Status.QUEUED and row.started_at is None:
        return "queued"
    return ENDS.get(row.status, "in_progress")


def write_response(row: Job, echo: Echo, answer: Answer | None = None) -> OpenAIResponse:
    """Return the response of a job. `answer` is that of a job that has succeeded."""
    status = read_status(row, answer)
    reason = INCOMPLETE.get(answer.transcript.finish_reason) if answer else None
    return OpenAIResponse(
        id=encode(Prefix.RESPONSE, row.id),
        created_at=int(row.created_at.timestamp()),
        completed_at=int(row.finished_at.timestamp()) if status == "completed" and row.finished_at else None,
        status=status,
        background=bool(echo.background),
        model=row.model,
        output=[write_message(row, answer.text, status)] if answer else [],
        error=explain(row) if status == "failed" else None,
        incomplete_details=IncompleteDetails(reason) if reason else None,
        usage=write_usage(answer.transcript.usage) if answer else None,
        instructions=echo.instructions,
        previous_response_id=echo.previous_response_id,
        max_output_tokens=echo.max_output_tokens,
        temperature=echo.temperature,
        top_p=echo.top_p,
        text={"format": {"type": "text"}, **drop_nulls(echo.text)},
        reasoning={"effort": None, "summary": None, **drop_nulls(echo.reasoning)},
        truncation="disabled",
        parallel_tool_calls=echo.parallel_tool_calls is not False,
        tool_choice=echo.tool_choice or "auto",
        tools=[],
        top_logprobs=0,
        max_tool_calls=None,
        metadata=msgspec.json.decode(row.metadata or b"{}"),
        service_tier=SHOWN_TIERS.get(row.priority, "default"),
        store=echo.is_stored,
        user=echo.user,
        safety_identifier=echo.safety_identifier,
        prompt_cache_key=echo.prompt_cache_key,
    )


def drop_nulls(given: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (given or {}).items() if value is not None}


def write_message(row: Job, text: str, status: ResponseStatus) -> OutputMessage:
    """Return the message of a response with this status."""
    ended: Literal["completed", "incomplete"] = "incomplete" if status == "incomplete" else "completed"
    return OutputMessage(id=encode(Prefix.MESSAGE, row.id), status=ended, content=[OutputText(text)])


def write_usage(usage: TokenUsage | None) -> ResponseUsage | None:
    if usage is None:
        return None
    return ResponseUsage(
        input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, total_tokens=usage.total_tokens
    )


def explain(row: Job) -> ResponseFailure:
    """Return why a job failed. An expired one did not start in time."""
    code = row.error_code or row.status
    refused = STATUS_BY_ERROR.get(code) is HTTPStatus.BAD_REQUEST
    message = row.error_message or f"the job is {row.status}"
    if code in REFUSED:
        message = read_refusal(Endpoint.RESPONSES, message).text
    return ResponseFailure("invalid_prompt" if refused else "server_error", message, code)
