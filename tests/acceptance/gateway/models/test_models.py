"""Jobs of every model, and of models that fail."""

import re

import pytest

from tests.support.api.api_client import Api, Failure, Output
from tests.support.api.model_inputs import LINES, fault, picture

AT_ONCE = {"initial_delay": 0, "max_delay": 0}


async def test_responses_of_a_streaming_model_are_in_order(api: Api) -> None:
    job = await api.run("tokens", {"text": ["one two  three"], "delay_ms": [20]})
    expected = [Output("token", "BYTES", [1], [word], index) for index, word in enumerate(("one", " two", " three"))]
    assert (job.status, job.outputs) == ("succeeded", expected)


async def test_streaming_model_may_send_no_response(api: Api) -> None:
    job = await api.run("tokens", {"text": [" "]})
    assert (job.status, job.outputs) == ("succeeded", [])


async def test_image_is_read_line_by_line(api: Api) -> None:
    job = await api.run("ocr_stream", picture())
    assert job.status == "succeeded"
    outputs = job.outputs or []
    assert [(output.response, output.data) for output in outputs if output.name == "text"] == [
        (index, [line]) for index, line in enumerate(LINES)
    ]
    assert [output.name for output in outputs] == ["text", "box", "score"] * len(LINES)


async def test_invalid_image_fails_at_once(api: Api) -> None:
    job = await api.run("ocr", {"image": ["no image"]})
    assert (job.status, job.attempt) == ("failed", 1)
    assert job.error is not None
    assert (job.error.code, job.error.retryable) == ("invalid_input", False)


async def test_exception_is_retried_and_its_message_has_lines_of_code_without_folders(api: Api) -> None:
    job = await api.run("faulty", fault("raise"), retry={"max_attempts": 3, **AT_ONCE})
    assert (job.status, job.attempt, job.max_attempts) == ("failed", 3, 3)
    assert job.outputs is None
    assert job.error is not None
    assert (job.error.code, job.error.retryable) == ("inference_failed", True)
    assert "raised as asked" in job.error.message
    assert "/" not in job.error.message
    assert re.search(r"\(model\.py, line \d+, in _raise; ", job.error.message)


async def test_invalid_input_is_not_retried(api: Api) -> None:
    job = await api.run("faulty", fault("invalid"))
    assert (job.status, job.attempt) == ("failed", 1)
    assert job.error == Failure("invalid_input", "INVALID_ARG: invalid as asked", False)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("missing_output", "the model did not return its output 'result'"),
        ("wrong_datatype", "output 'result' is FP32, but is declared as BYTES"),
        ("wrong_shape", "output 'result' has shape [3], but is declared as [1]"),
    ],
)
async def test_output_that_differs_from_its_declaration_fails_the_job(api: Api, mode: str, message: str) -> None:
    job = await api.run("faulty", fault(mode))
    assert (job.status, job.attempt) == ("failed", 1)
    assert (job.outputs, job.error) == (None, Failure("invalid_output", message, False))


async def test_job_succeeds_after_temporary_failures(api: Api) -> None:
    job = await api.run("faulty", fault("fail_times", 2), retry={"max_attempts": 5, **AT_ONCE})
    assert (job.status, job.attempt, job.error) == ("succeeded", 3, None)
    assert job.output("result") == ["ok"]


async def test_fallback_model_runs_once_after_the_last_attempt(api: Api) -> None:
    submitted = await api.submit("ocr", {"image": ["no image"]}, fallback_model="ocr_stream", retry={"max_attempts": 1})
    job = await api.wait(submitted.id)
    assert (job.status, job.model, job.attempt) == ("failed", "ocr_stream", 2)


async def test_job_of_a_hanging_model_fails_at_its_timeout(api: Api) -> None:
    job = await api.run("faulty", fault("hang", 5000), timeout=1, retry={"max_attempts": 1})
    assert (job.status, job.attempt) == ("failed", 1)
    assert job.error == Failure("timeout", "the attempt took longer than its timeout of 1 s", True)
    assert (job.metrics.total_ms or 0) >= 1000
