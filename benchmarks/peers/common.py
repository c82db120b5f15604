"""What both peers do alike: tensors, and webhooks signed as Standard Webhooks has it."""

import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from tritonclient.grpc import InferInput, InferResult
from tritonclient.utils import triton_to_np_dtype

CONCURRENCY = int(os.environ["CONCURRENCY"])  # of the worker's tasks
SECRET = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
SECONDS = 15.0  # for an inference, and for a webhook

Row = Mapping[str, Any]


def make_tensors(inputs: Mapping[str, list[Any]], types: Mapping[str, str]) -> list[InferInput]:
    tensors = []
    for name, values in inputs.items():
        array = np.array(values, dtype=triton_to_np_dtype(types[name]))
        tensor = InferInput(name, list(array.shape), types[name])
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    return tensors


def read_outputs(result: InferResult) -> dict[str, Any]:
    return {output.name: result.as_numpy(output.name).tolist() for output in result.get_response().outputs}


def render(job: Row, seconds: float) -> str:
    """Return the body of a job's webhook. `seconds` is the time of its inference."""
    metrics = {
        "queue_ms": (job["started_at"] - job["created_at"]).total_seconds() * 1000,
        "inference_ms": seconds * 1000,
        "total_ms": (job["ended_at"] - job["created_at"]).total_seconds() * 1000,
    }
    data = {name: job[name] for name in ("status", "model", "outputs", "metadata")}
    times = {name: job[name].isoformat() for name in ("created_at", "started_at", "ended_at")}
    event = {"type": "job.succeeded", "timestamp": datetime.now(UTC).isoformat()}
    return json.dumps(event | {"data": {"id": str(job["id"]), **data, **times, "metrics": metrics}})


def make_headers(message_id: str, body: str) -> dict[str, str]:
    """Return the headers of a webhook, with its signature."""
    timestamp = str(int(time.time()))
    digest = hmac.new(SECRET, f"{message_id}.{timestamp}.{body}".encode(), hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
