"""A stored pipeline."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from common.runs.pipelines import read_pipeline
from common.tensors import Datatype, Signature
from services.gateway.models.pipeline_store import StoredPipeline

NUMBERS, ROWS = {"datatype": "FP32", "shape": [-1]}, {"datatype": "FP32", "shape": [-1, 2]}
DEFINITION: dict[str, Any] = {
    "inputs": {"x": NUMBERS, "rows": ROWS},
    "steps": {
        "first": {"model": "echo", "inputs": {"x": "$inputs.x"}},
        "each": {"model": "echo", "inputs": {"x": "$inputs.rows"}, "for_each": "x"},
    },
    "outputs": {"result": "$first.y", "all": "$each.y"},
}
OUTPUTS = {
    "first": [Signature("y", Datatype.FP32, [-1])],
    "each": [Signature("y", Datatype.FP32, [-1, 2])],
}
INPUTS = [Signature("x", Datatype.FP32, [-1]), Signature("rows", Datatype.FP32, [-1, 2])]


def new_stored(name: str = "chain", version: int = 3, **changes: Any) -> StoredPipeline:
    pipeline = read_pipeline(msgspec.json.encode(DEFINITION | changes), msgspec.json.encode(OUTPUTS))
    return StoredPipeline(name, version, pipeline, INPUTS, datetime(2026, 1, 1, tzinfo=UTC))
