"""Every model, and what becomes of a job when its model fails."""

import pytest

from tests.acceptance.client import Api, Failure, Output
from tests.acceptance.samples import LINES, fault, picture

AT_ONCE = {"initial_delay": 0, "max_delay": 0}


async def test_a_streaming_models_responses_come_in_order(api: Api) -> None:
    job = await api.run("tokens", {"text": ["one two  three"], "delay_ms": [20]})
    expected = [Output("token", "BYTES", [1], [word], index) for index, word in enumerate(("one", "two", "three"))]
    assert (job.status, job.outputs) == ("succeeded", expected)


async def test_a_streaming_model_may_have_nothing_to_say(api: Api) -> None:
    job = await api.run("tokens", {"text": [" "]})
    assert (job.status, job.outputs) == ("succeeded", [])


async def test_an_image_is_read_line_by_line(api: Api) -> None:
    job = await api.run("ocr_stream", picture())
    assert job.status == "succeeded"
    outputs = job.outputs or []
    assert [(output.response, output.data) for output in outputs if output.name == "text"] == [
        (index, [line]) for index, line in enumerate(LINES)
    ]
    assert [output.name for output in outputs] == ["text", "box", "score"] * len(LINES)


async def test_an_image_that_is_none_fails_at_once(api: Api) -> None:
    job = await api.run("ocr", {"image": ["no image"]})
    assert (job.status, job.attempt) == ("failed", 1)
    assert job.error is not None
    assert (job.error.code, job.error.retryable) == ("invalid_input", False)


async def test_an_exception_is_tried_again_and_told_without_the_servers_paths(api: Api) -> None:
    job = await api.run("faulty", fault("raise"), retry={"max_attempts": 3, **AT_ONCE})
    assert (job.status, job.attempt, job.max_attempts) == ("failed", 3, 3)
    assert job.outputs is None
    assert job.error is not None
    assert (job.error.code, job.error.retryable) == ("inference_failed", True)
    assert "raised as asked" in job.error.message
    assert "/" not in job.error.message
    assert "model.py" not in job.error.message


async def test_invalid_input_is_not_tried_again(api: Api) -> None:
    job = await api.run("faulty", fault("invalid"))
    assert (job.status, job.attempt) == ("failed", 1)
    assert job.error == Failure("invalid_input", "INVALID_ARG: invalid as asked", False)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("missing_output", "the model did not answer its output 'result'"),
        ("wrong_datatype", "output 'result' is FP32, declared as BYTES"),
        ("wrong_shape", "output 'result' has shape [3], declared as [1]"),
    ],
)
async def test_an_output_that_is_not_as_declared_fails_the_job(api: Api, mode: str, message: str) -> None:
    job = await api.run("faulty", fault(mode))
    assert (job.status, job.attempt) == ("failed", 1)
    assert (job.outputs, job.error) == (None, Failure("invalid_output", message, False))


async def test_a_passing_fault_costs_attempts_only(api: Api) -> None:
    job = await api.run("faulty", fault("fail_times", 2), retry={"max_attempts": 5, **AT_ONCE})
    assert (job.status, job.attempt, job.error) == ("succeeded", 3, None)
    assert job.output("result") == ["ok"]


async def test_used_up_attempts_fall_back_to_another_model_once(api: Api) -> None:
    submitted = await api.submit("ocr", {"image": ["no image"]}, fallback_model="ocr_stream", retry={"max_attempts": 1})
    job = await api.wait(submitted.id)
    assert (job.status, job.model, job.attempt) == ("failed", "ocr_stream", 2)


async def test_a_hanging_model_fails_by_the_jobs_timeout(api: Api) -> None:
    job = await api.run("faulty", fault("hang", 1500), timeout=1, retry={"max_attempts": 1})
    assert (job.status, job.attempt) == ("failed", 1)
    assert job.error == Failure("timeout", "the attempt took longer than its timeout of 1 s", True)
    assert (job.metrics.total_ms or 0) >= 1000
