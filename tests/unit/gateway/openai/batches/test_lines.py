"""The lines of the files of a batch, as OpenAI's clients read them."""

import json
from typing import Any

import msgspec
import pytest

from common import ids
from common.job_states import Status
from common.jobs.job import Job
from services.gateway.http.problems import FieldError, Problem
from services.gateway.openai.batches.checks import LineProblem, explain
from services.gateway.openai.batches.lines import write_body, write_erased, write_error, write_output
from services.gateway.openai.batches.store import LineRow
from services.gateway.openai.calls.record import Endpoint, write_record
from tests.unit.gateway.openai.batches.jobs import ended_job

BATCH = ids.new()
LETTERS = ids.encode(ids.Kind.BATCH, BATCH).removeprefix("batch_")


def row(job: Job | None = None, problem: LineProblem | None = None) -> LineRow:
    return LineRow(7, "a", None if problem is None else msgspec.json.encode(problem), job, None, None)


def write(job: Job | None = None, problem: LineProblem | None = None) -> dict[str, Any]:
    line = write_error(BATCH, row(job, problem), Endpoint.CHAT)
    assert line is not None
    found: dict[str, Any] = json.loads(line)
    assert (found["id"], found["custom_id"]) == (f"batch_req_{LETTERS}_7", "a")
    return found


def test_a_success_has_the_answer_of_the_call() -> None:
    job = ended_job()
    line = json.loads(write_output(BATCH, row(job), job, b'{"object":"chat.completion"}'))
    shown = ids.encode(ids.Kind.JOB, job.id)
    assert line["response"] == {"status_code": 200, "request_id": shown, "body": {"object": "chat.completion"}}
    assert line["error"] is None


def test_a_refused_line_has_the_error_of_the_call() -> None:
    problem = LineProblem(
        "urn:charonia:problem:invalid_request", "/n: one", [FieldError("/messages/0/content", "is missing")], 422
    )
    line = write(problem=problem)
    error = line["response"]["body"]["error"]
    assert (line["response"]["status_code"], line["response"]["request_id"], line["error"]) == (400, "", None)
    assert (error["param"], error["code"], error["type"]) == (
        "messages[0].content",
        "invalid_value",
        "invalid_request_error",
    )


@pytest.mark.parametrize("code", ["batch_expired", "batch_cancelled"])
def test_a_line_that_was_not_tried_has_no_response(code: str) -> None:
    line = write(problem=explain(code))
    assert (line["response"], line["error"]["code"]) == (None, code)


@pytest.mark.parametrize(("status", "code"), [(Status.EXPIRED, "batch_expired"), (Status.CANCELED, "batch_cancelled")])
def test_a_job_that_never_had_an_answer_has_no_response(status: Status, code: str) -> None:
    line = write(ended_job(status))
    assert (line["response"], line["error"]["code"]) == (None, code)


def test_a_failed_job_has_the_error_of_the_call() -> None:
    job = ended_job(Status.FAILED, error_code="timeout", error_message="too slow", error_retryable=True)
    line = write(job)
    assert (line["response"]["status_code"], line["response"]["body"]["error"]["code"]) == (503, "timeout")
    assert line["response"]["request_id"] == ids.encode(ids.Kind.JOB, job.id)


def test_what_a_model_refuses_names_the_parameter() -> None:
    refusal = {"error_code": "invalid_input", "error_message": "INVALID_ARG: stop: no", "error_retryable": False}
    error = write(ended_job(Status.FAILED, **refusal))["response"]["body"]["error"]
    assert (error["param"], error["message"]) == ("stop", "stop: no")


@pytest.mark.parametrize("job", [None, ended_job(), ended_job(Status.QUEUED), ended_job(Status.CANCELING)])
def test_other_jobs_have_no_line_there(job: Job | None) -> None:
    assert write_error(BATCH, row(job), Endpoint.CHAT) is None


def test_an_erased_job_says_so() -> None:
    line = json.loads(write_erased(BATCH, row(ended_job())))
    assert (line["response"], line["error"]["code"]) == (None, "erased")


@pytest.mark.parametrize(
    ("endpoint", "body", "outputs", "found"),
    [
        (
            Endpoint.CHAT,
            {"model": "llm", "messages": [], "stop": "c"},
            [{"text_output": [b"a b c"]}],
            lambda answer: answer["choices"][0]["message"]["content"] == "a b ",
        ),
        (
            Endpoint.COMPLETIONS,
            {"model": "llm", "prompt": "a", "echo": True},
            [{"text_output": [b" b"]}, {"text_output": [b" c"]}],
            lambda answer: answer["choices"][0]["text"] == "a b c",
        ),
        (
            Endpoint.RESPONSES,
            {"model": "llm", "input": "a", "max_output_tokens": 5},
            [{"text_output": [b"a b"]}],
            lambda answer: answer["output"][0]["content"][0]["text"] == "a b" and answer["max_output_tokens"] == 5,
        ),
        (
            Endpoint.EMBEDDINGS,
            {"model": "embed", "input": ["a", "b"]},
            [{"embedding": [1.0, 2.0, 3.0, 4.0]}],
            lambda answer: [each["embedding"] for each in answer["data"]] == [[1.0, 2.0], [3.0, 4.0]],
        ),
    ],
)
def test_the_answer_is_written_from_the_outputs_and_the_call(
    endpoint: Endpoint, body: dict[str, Any], outputs: Any, found: Any
) -> None:
    record = write_record(endpoint, msgspec.json.encode(body))
    assert found(json.loads(write_body(endpoint, ended_job(), record, outputs)))


def test_unreadable_outputs_are_a_problem() -> None:
    record = write_record(Endpoint.CHAT, b'{"model": "llm", "messages": []}')
    with pytest.raises(Problem) as raised:
        write_body(Endpoint.CHAT, ended_job(), record, [{"other": [b""]}])
    assert raised.value.code == "unreadable_output"


def test_an_endpoint_of_a_later_release_is_left_to_it() -> None:
    record = write_record(Endpoint.CHAT, b"{}")
    with pytest.raises(Problem, match="a later release") as raised:
        write_body("/v1/later", ended_job(), record, [])
    assert raised.value.status == 503
