"""A request to store a pipeline: its fields are those of what is stored, and others are refused."""

import msgspec
import pytest

from common.pipelines.definition import InputDefinition, PipelineDefinition, StepDefinition
from services.gateway.http.bodies import decode_body
from services.gateway.http.problems import Problem
from services.gateway.jobs.schemas import SubmitJob
from services.gateway.openapi.descriptions import describe_fields
from services.gateway.pipelines.schemas import PipelineInput, PipelineStep, PutPipeline

BODY = b"""{
  "inputs": {"image": {"datatype": "BYTES", "shape": [1]%s}},
  "steps": {"%s": {"model": "ocr", "inputs": {"image": "$inputs.image"}%s}},
  "outputs": {"text": "$read.text"}%s
}"""


def test_a_stored_pipeline_is_the_request() -> None:
    body = BODY % (b"", b"read", b', "retry": {"max_attempts": 3}, "priority": "low"', b"")
    request = decode_body(body, PutPipeline)
    stored = msgspec.json.decode(msgspec.json.encode(request), type=PipelineDefinition)
    assert msgspec.to_builtins(stored) == msgspec.to_builtins(request)
    assert stored.steps["read"].retry.max_attempts == 3


@pytest.mark.parametrize(
    ("parts", "pointer", "text"),
    [
        ((b', "optionl": true', b"read", b"", b""), "/inputs/image/optionl", "unknown field"),
        ((b"", b"read", b', "priorty": "low"', b""), "/steps/read/priorty", "did you mean `priority`?"),
        ((b"", b"read", b', "retry": {"attempts": 3}', b""), "/steps/read/retry/attempts", "unknown field"),
        ((b"", b"read", b"", b', "step": {}'), "/step", "unknown field"),
        ((b"", b"inputs", b"", b""), "/steps/inputs", "its name must have 1 to 64 letters, digits, _ and -"),
    ],
)
def test_a_typo_is_refused(parts: tuple[bytes, ...], pointer: str, text: str) -> None:
    with pytest.raises(Problem) as caught:
        decode_body(BODY % parts, PutPipeline)
    (error,) = caught.value.errors
    assert error.pointer == pointer
    assert text in error.detail


@pytest.mark.parametrize(
    ("request_type", "stored"),
    [(PutPipeline, PipelineDefinition), (PipelineStep, StepDefinition), (PipelineInput, InputDefinition)],
)
def test_a_request_has_the_fields_of_what_is_stored(
    request_type: type[msgspec.Struct], stored: type[msgspec.Struct]
) -> None:
    assert describe_fields(request_type) == describe_fields(stored)


def test_the_options_of_a_step_are_those_of_a_job() -> None:
    step, job = (msgspec.json.schema_components([each])[1] for each in (PipelineStep, SubmitJob))
    other = {"inputs", "timeout", "priority", "reuse"}  # a run has its own defaults, and steps have no model's
    shared = step["PipelineStep"]["properties"].keys() & job["SubmitJob"]["properties"].keys() - other
    assert len(shared) == 5
    for name in shared:
        assert step["PipelineStep"]["properties"][name] == job["SubmitJob"]["properties"][name]
        assert describe_fields(PipelineStep)[name] == describe_fields(SubmitJob)[name]
