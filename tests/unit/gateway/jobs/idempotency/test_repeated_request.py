"""A repeated request is answered, also if a gateway of a later release accepted it."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from common import ids
from services.gateway.auth.store import Key
from services.gateway.jobs.idempotency.keys import parse_request_key
from services.gateway.jobs.idempotency.repeated_request import parse_replay
from services.gateway.jobs.idempotency.store import KeyRecord
from services.gateway.jobs.parse import parse_job
from services.gateway.jobs.submit import SubmittedJob, Submitter, replay
from tests.unit.gateway.parsing import TRACEPARENT

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
