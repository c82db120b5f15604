"""A repeated request is answered, also if a gateway of a later release accepted it."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from common import ids
from common.jobs.submit import JobTimes
from common.views.job import JobUrls, view_job
from services.gateway.auth.store import Key
from services.gateway.jobs.idempotency.keys import parse_request_key
from services.gateway.jobs.idempotency.repeated_request import parse_replay
from services.gateway.jobs.idempotency.store import KeyRecord
from services.gateway.jobs.parse import parse_job
from services.gateway.jobs.runs.parse import to_runnable
from services.gateway.jobs.submit import SubmittedJob, Submitter, replay, to_row
from services.gateway.models.pipeline_store import PipelineKey
from tests.unit.gateway.parsing import TRACEPARENT
from tests.unit.gateway.stored_pipelines import new_stored

AT = datetime(2026, 11, 28, tzinfo=UTC)
JOB = {"model": "echo", "inputs": {"x": [1]}}
ALL = JOB | {
    "version": "1",
    "priority": "high",
    "webhook": {"url": "https://example.com/"},
    "metadata": {"order": 7},
    "retry": {"max_attempts": 9},
    "fallback_model": "echo",
}


async def answer(submitter: Submitter, body: dict[str, Any], accepted: dict[str, Any]) -> tuple[SubmittedJob, ...]:
    """Return the answers to a repeat: from the body alone, and from the accepted job."""
    content = msgspec.json.encode(body)
    request_key = parse_request_key("key", content)
    assert request_key is not None
    context = await submitter.make_context(Key(ids.new(), ids.new()), TRACEPARENT, request_key)
    first = KeyRecord(ids.new(), False, request_key.fingerprint, AT, AT, None, TRACEPARENT, None, False)
    job = parse_job(msgspec.json.encode(accepted), context)
    return replay(first, parse_replay(content, context)), replay(first, job)


async def test_the_answer_for_a_run_is_that_of_the_first_request(submitter: Submitter) -> None:
    """The key says that it is one, and of which version. The pipeline may be another one now."""
    run = {"model": "chain", "inputs": {"x": [1.0], "rows": [[1.0, 2.0]]}, "metadata": {"a": 1}}
    content = msgspec.json.encode(run)
    request_key = parse_request_key("key", content)
    assert request_key is not None
    context = await submitter.make_context(Key(ids.new(), ids.new()), TRACEPARENT, request_key)
    known = {PipelineKey("chain"): to_runnable(new_stored(version=3))}
    job = parse_job(content, context._replace(pipelines=known))
    first = KeyRecord(job.id, False, request_key.fingerprint, AT, AT, None, TRACEPARENT, None, False, run_version="3")
    shown = [
        view_job(row, JobUrls())
        for row in (to_row(job, JobTimes(AT, AT, None)), replay(first, parse_replay(content, context)).row)
    ]
    assert msgspec.json.encode(shown[0]) == msgspec.json.encode(shown[1])
    assert (shown[1].kind, shown[1].version, shown[1].max_attempts) == ("pipeline", "3", 1)


@pytest.mark.parametrize("body", [JOB, ALL])
async def test_the_answer_is_that_of_the_first_request(submitter: Submitter, body: dict[str, Any]) -> None:
    from_body, from_job = await answer(submitter, body, body)
    assert from_body == from_job


@pytest.mark.parametrize(
    "later",
    [
        {"affinity": "gpu"},
        {"inputs": {"x": {"url": "https://example.com/x", "headers": {}}}},
        {"inputs": "inline:1"},
        {"webhook": {"url": "https://example.com/" + "x" * 3000, "events": ["job.paused"], "format": "cloudevents"}},
        {"retry": {"max_attempts": 9, "on": ["inference_failed"]}},
        {"retry": {"max_attempts": 9, "initial_delay": 100_000}},
        {"timeout": "10 min"},
        {"output": {"bucket": "b"}},
    ],
)
async def test_fields_of_a_later_release_are_ignored(submitter: Submitter, later: dict[str, Any]) -> None:
    """A refusal would make the client submit the job again, under another key."""
    from_body, from_job = await answer(submitter, ALL | later, ALL)
    assert from_body == from_job
