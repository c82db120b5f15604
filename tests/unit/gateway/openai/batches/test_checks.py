"""A line of a batch becomes a job, or says why not."""

from http import HTTPStatus
from typing import Any, cast

import msgspec
import pytest

from common import ids
from common.job_states import Priority
from services.gateway.http.problems import FieldError, Problem
from services.gateway.openai.batches.checks import CheckedLine, LineChecker, LineProblem, describe, explain, refuse_line
from services.gateway.openai.batches.endpoints import CALLS
from services.gateway.openai.batches.record import BatchRecord
from services.gateway.openai.batches.source import Line
from services.gateway.openai.calls.record import Endpoint, read_record
from services.gateway.openai.calls.submission import Submission
from tests.unit.gateway.openai.speaking import ALL, make_context
from tests.unit.gateway.parsing import FakeWorkers

BATCH = ids.new()
BODY = {"model": "llm", "messages": [{"role": "user", "content": "hello"}]}
LINE: dict[str, Any] = {"custom_id": "a", "method": "POST", "url": Endpoint.CHAT, "body": BODY}


async def check(line: object, index: int = 0, endpoint: str = Endpoint.CHAT, duplicates: bytes = b"") -> CheckedLine:
    workers = FakeWorkers()
    submission = Submission(cast(Any, None), workers, workers)
    record = BatchRecord(endpoint=endpoint, completion_window="24h", file_size=1, duplicates=duplicates)
    context = make_context(*ALL)._replace(priority=Priority.LOW)
    checker = LineChecker(submission, CALLS[endpoint], record, context, 60.0)
    text = line if isinstance(line, bytes) else msgspec.json.encode(line)
    return await checker.check(BATCH, index, Line(0, 100, text))


def read_problem(checked: CheckedLine) -> tuple[int, str, list[str]]:
    problem = checked.item.problem
    assert checked.job is None
    assert isinstance(problem, LineProblem)
    return problem.status, problem.type.rpartition(":")[2], [error.pointer for error in problem.errors]


def read_detail(checked: CheckedLine) -> str:
    assert checked.item.problem is not None
    return checked.item.problem.detail


async def test_a_line_is_a_job_of_the_batch_with_its_call() -> None:
    checked = await check(LINE, 7)
    job = checked.job
    assert job is not None
    assert checked.item == (7, job.id, "a", None)
    assert (job.batch_id, job.model, job.priority, job.expires_in) == (BATCH, "llm", Priority.LOW, 60.0)
    assert "low" in job.wake_up.routing_key
    record = read_record(job.request or b"")
    assert (record.endpoint, msgspec.json.decode(record.body)) == (Endpoint.CHAT, BODY)
    assert checked.end == 100


@pytest.mark.parametrize(
    ("tier", "priority"),
    [("auto", Priority.LOW), ("flex", Priority.LOW), ("default", Priority.NORMAL), ("priority", Priority.HIGH)],
)
async def test_a_line_may_name_its_priority(tier: str, priority: Priority) -> None:
    job = (await check(LINE | {"body": BODY | {"service_tier": tier}})).job
    assert job is not None
    assert job.priority is priority


@pytest.mark.parametrize(
    ("changes", "status", "code", "pointers"),
    [
        ({"custom_id": ""}, 422, "invalid_request", ["/custom_id"]),
        ({"custom_id": 1}, 422, "invalid_request", ["/custom_id"]),
        ({"custom_id": "a\x00"}, 422, "invalid_request", ["/custom_id"]),
        ({"method": "GET"}, 422, "invalid_request", ["/method"]),
        ({"url": "/v1/embeddings"}, 400, "url_mismatch", ["/url"]),
        ({"extra": 1}, 422, "invalid_request", ["/extra"]),
        ({"body": []}, 422, "invalid_request", [""]),
        ({"body": BODY | {"model": "none"}}, 404, "model_not_found", []),
        ({"body": BODY | {"stream": True}}, 400, "unsupported_parameter", ["/stream"]),
        ({"body": BODY | {"background": True}}, 400, "unsupported_parameter", ["/background"]),
        ({"body": BODY | {"previous_response_id": "resp_1"}}, 400, "unsupported_parameter", ["/previous_response_id"]),
        ({"body": BODY | {"temperature": 9}}, 422, "invalid_request", ["/temperature"]),
        ({"body": BODY | {"n": 2}}, 400, "unsupported_parameter", ["/n"]),
    ],
)
async def test_a_wrong_line_says_what_is_wrong(
    changes: dict[str, Any], status: int, code: str, pointers: list[str]
) -> None:
    assert read_problem(await check(LINE | changes)) == (status, code, pointers)


@pytest.mark.parametrize("text", [b'{"custom_id": "a", ', b"\xff", b"{" * 10_000, b'{"custom_id": "a"} {}'])
async def test_a_line_that_is_no_json_says_so(text: bytes) -> None:
    assert read_problem(await check(text))[:2] == (400, "malformed_json")


async def test_a_missing_field_is_named() -> None:
    line = {key: value for key, value in LINE.items() if key != "custom_id"}
    assert read_problem(await check(line))[2] == ["/custom_id"]
    line = {key: value for key, value in LINE.items() if key != "body"}
    assert read_detail(await check(line)) == "/body: is missing; it must be an object"


async def test_a_line_that_is_no_object_gets_one_to_copy() -> None:
    example = '{"custom_id": "…", "method": "POST", "url": "/v1/chat/completions", "body": {…}}'
    assert read_detail(await check(b"[1]")) == f"the line must be an object like {example}, got a list"


async def test_a_name_of_an_earlier_line_is_refused() -> None:
    assert read_problem(await check(LINE, 3, duplicates=b"\x08")) == (400, "duplicate_custom_id", ["/custom_id"])
    assert (await check(LINE, 2, duplicates=b"\x08")).job is not None


async def test_a_line_that_is_too_long_is_refused() -> None:
    workers = FakeWorkers()
    record = BatchRecord(endpoint=Endpoint.CHAT, completion_window="24h", file_size=1)
    submission = Submission(cast(Any, None), workers, workers)
    checker = LineChecker(submission, CALLS[Endpoint.CHAT], record, make_context(), 60.0)
    checked = await checker.check(BATCH, 0, Line(0, 5, None))
    assert read_problem(checked)[:2] == (413, "body_too_large")
    assert checked.item.custom_id is None


async def test_an_embedding_is_one_too() -> None:
    line = LINE | {"url": Endpoint.EMBEDDINGS, "body": {"model": "embed", "input": "a"}}
    job = (await check(line, endpoint=Endpoint.EMBEDDINGS)).job
    assert job is not None
    assert job.model == "embed"


async def test_a_response_is_one_too() -> None:
    line = LINE | {"url": Endpoint.RESPONSES, "body": {"model": "llm", "input": "a", "store": False}}
    job = (await check(line, endpoint=Endpoint.RESPONSES)).job
    assert job is not None
    assert (job.model, job.retain) == ("llm", 600.0)


@pytest.mark.parametrize("code", ["batch_expired", "batch_cancelled"])
def test_a_line_that_never_ran_keeps_its_name(code: str) -> None:
    checked = refuse_line(4, Line(0, 9, b'{"custom_id": "a"}'), explain(code))
    assert (checked.item.number, checked.item.custom_id, checked.job, checked.end) == (4, "a", None, 9)
    assert read_problem(checked) == (0, code, [])


def test_a_long_problem_is_cut() -> None:
    many = [FieldError("/a", "x" * 1000)] * 9
    problem = describe(Problem(HTTPStatus.BAD_REQUEST, "some_code", "y" * 5000, errors=many))
    assert (problem.status, len(problem.detail), len(problem.errors), len(problem.errors[0].detail)) == (
        400,
        500,
        3,
        500,
    )
