"""Large infer calls are parsed by a worker process."""

from typing import Any, cast

import msgspec
import pytest

from common import ids
from services.gateway.auth.store import Key
from services.gateway.jobs.submit import Submitter
from services.gateway.open_inference.inference import Inference
from services.gateway.open_inference.parse import InferCall, parse_infer
from tests.unit.gateway.parsing import LENGTHS, TRACEPARENT, FakeWorkers


@pytest.mark.parametrize("size", LENGTHS)
async def test_a_large_infer_call_is_parsed_by_a_worker(submitter: Submitter, workers: FakeWorkers, size: str) -> None:
    none = cast(Any, None)
    count = LENGTHS[size]
    body = msgspec.json.encode(
        {"inputs": [{"name": "x", "shape": [count], "datatype": "FP32", "data": [0] * count}], "id": "mine"}
    )
    context = await submitter.make_context(Key(ids.new(), ids.new()), TRACEPARENT)
    inference = Inference(submitter, none, none, none, 1.0)
    job, requested = await inference.parse(body, InferCall("echo", None, None, []), context)
    assert (job.model, requested.id) == ("echo", "mine")
    assert workers.ran == ([parse_infer] if size == "large" else [])
