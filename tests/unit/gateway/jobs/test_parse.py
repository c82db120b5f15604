"""Large jobs are parsed by a worker process."""

import msgspec
import pytest

from common import ids
from services.gateway.auth.store import Key
from services.gateway.jobs.idempotency_store import RequestKey
from services.gateway.jobs.parse import parse_job
from services.gateway.jobs.submit import Submitter
from tests.unit.gateway.parsing import LENGTHS, TRACEPARENT, FakeWorkers


@pytest.mark.parametrize("size", LENGTHS)
async def test_a_large_job_is_parsed_by_a_worker(submitter: Submitter, workers: FakeWorkers, size: str) -> None:
    body = msgspec.json.encode({"model": "echo", "inputs": {"x": [0] * LENGTHS[size]}})
    context = await submitter.make_context(Key(ids.new(), ids.new()), TRACEPARENT, RequestKey("key", b"digest"))
    job = await submitter.parse(body, context)
    assert (job.model, job.idempotency_key) == ("echo", "key")
    assert workers.ran == ([parse_job] if size == "large" else [])
