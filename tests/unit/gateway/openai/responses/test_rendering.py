"""The response that a job is, in each of its states."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from common.job_states import Priority, Status
from common.jobs.job import Job
from services.gateway.openai.kinds.pieces import Piece, Transcript
from services.gateway.openai.responses.echo import Echo, read_request
from services.gateway.openai.responses.rendering import Answer, read_status, write_response
from tests.unit.gateway.samples import ROW

ECHO = Echo(model="echo")
STARTED = ROW.created_at + timedelta(seconds=1)
ENDED = ROW.created_at + timedelta(seconds=5)


def change(**fields: Any) -> Job:
    return msgspec.structs.replace(ROW, **fields)


def answer(text: str = "hi", reason: str = "stop") -> Answer:
    transcript = Transcript()
    transcript.add(Piece(text.encode(), reason, prompt_tokens=2, completion_tokens=1))
    return Answer(text, transcript)


def show(row: Job, echo: Echo = ECHO, given: Answer | None = None) -> Any:
    return msgspec.to_builtins(write_response(row, echo, given))


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"status": Status.QUEUED, "started_at": None}, "queued"),
        ({"status": Status.QUEUED, "started_at": STARTED}, "in_progress"),  # an attempt failed
        ({"status": Status.PROCESSING}, "in_progress"),
        ({"status": Status.CANCELING}, "in_progress"),
        ({"status": Status.SUCCEEDED}, "completed"),
        ({"status": Status.FAILED}, "failed"),
        ({"status": Status.EXPIRED}, "failed"),
        ({"status": Status.CANCELED}, "cancelled"),
        ({"status": "paused"}, "in_progress"),  # of a later release
    ],
)
def test_each_state_of_a_job_is_one_of_a_response(fields: dict[str, Any], status: str) -> None:
    assert read_status(change(**fields)) == status


def test_a_completed_response_has_its_answer_and_usage() -> None:
    found = show(change(status=Status.SUCCEEDED, finished_at=ENDED), given=answer())
    assert (found["status"], found["created_at"], found["completed_at"]) == ("completed", 1767225600, 1767225605)
    (message,) = found["output"]
    assert message["id"].startswith("msg_")
    assert message["id"].removeprefix("msg_") == found["id"].removeprefix("resp_")
    text = {"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}
    assert (message["role"], message["status"], message["content"]) == ("assistant", "completed", [text])
    assert (found["usage"]["input_tokens"], found["usage"]["output_tokens"], found["usage"]["total_tokens"]) == (
        2,
        1,
        3,
    )
    assert (found["error"], found["incomplete_details"]) == (None, None)


@pytest.mark.parametrize(("reason", "shown"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_answer_that_was_cut_is_incomplete(reason: str, shown: str) -> None:
    found = show(change(status=Status.SUCCEEDED, finished_at=ENDED), given=answer(reason=reason))
    assert (found["status"], found["incomplete_details"]) == ("incomplete", {"reason": shown})
    assert (found["output"][0]["status"], found["completed_at"]) == ("incomplete", None)


def test_a_failed_response_says_why() -> None:
    failed = change(status=Status.FAILED, error_code="inference_failed", error_message="the engine died")
    error = {"code": "server_error", "message": "the engine died", "type": "inference_failed"}
    assert (show(failed)["error"], show(failed)["output"]) == (error, [])
    refused = change(status=Status.FAILED, error_code="inference_refused", error_message="UNSUPPORTED: no")
    error = {"code": "invalid_prompt", "message": "no", "type": "inference_refused"}
    assert show(refused)["error"] == error
    expired = show(change(status=Status.EXPIRED))
    assert (expired["error"]["type"], expired["error"]["message"]) == ("expired", "the job is expired")


def test_a_response_shows_its_request() -> None:
    echo = Echo(
        model="echo",
        background=True,
        instructions="be brief",
        max_output_tokens=5,
        previous_response_id="resp_1",
        temperature=0.5,
        reasoning={"effort": "low"},
        text={"verbosity": "low"},
        user="me",
        parallel_tool_calls=False,
    )
    found = show(change(metadata=b'{"a":"b"}', priority=Priority.LOW), echo)
    assert (found["background"], found["instructions"], found["max_output_tokens"]) == (True, "be brief", 5)
    assert (found["previous_response_id"], found["temperature"], found["user"]) == ("resp_1", 0.5, "me")
    assert (found["reasoning"], found["text"]) == (
        {"effort": "low", "summary": None},
        {"format": {"type": "text"}, "verbosity": "low"},
    )
    assert (found["metadata"], found["service_tier"], found["parallel_tool_calls"]) == ({"a": "b"}, "flex", False)
    assert (found["store"], found["tools"], found["tool_choice"]) == (True, [], "auto")


def test_only_a_stored_request_for_a_response_is_one() -> None:
    def record(endpoint: str, **body: Any) -> bytes:
        return msgspec.json.encode({"endpoint": endpoint, "body": {"model": "llm", "input": "x", **body}})

    found = read_request(record("/v1/responses", temperature=1, later="release"))
    assert found is not None
    assert found.echo == Echo(model="llm", temperature=1)
    assert msgspec.json.decode(found.body)["input"] == "x"
    assert read_request(record("/v1/responses", store=False)) is None
    assert read_request(record("/v1/chat/completions")) is None
