"""Examples of requests for the documentation. An acceptance test sends each one to a real stack."""

from typing import Any

from services.gateway.openapi import openai_examples

HOOK = "https://example.com/hook"
INFER: dict[str, Any] = {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}
PIPELINE: dict[str, Any] = {
    "inputs": {"x": {"datatype": "FP32", "shape": [-1, -1]}},
    "steps": {
        "first": {"model": "echo", "inputs": {"x": "$inputs.x"}},
        "rows": {
            "model": "echo",
            "inputs": {"x": "$first.y"},
            "for_each": "x",
            "timeout": 60,
            "retry": {"max_attempts": 3},
        },
    },
    "outputs": {"whole": "$first.y", "by_row": "$rows.y"},
}

# By operation, then by what the example shows.
REQUESTS: dict[str, dict[str, Any]] = {
    "submit_job": {
        "inputs by name": {"model": "echo", "inputs": {"x": [[1, 2, 3]]}, "metadata": {"order": 4711}},
        "inputs as in the Open Inference Protocol": {"model": "echo", **INFER},
        "most fields": {
            "model": "tokens",
            "version": "1",
            "inputs": {"text": ["Hello from the conch"]},
            "priority": "high",
            "webhook": {"url": HOOK, "events": ["job.succeeded", "job.failed"]},
            "metadata": {"order": 4711},
            "expires_in": 3600,
            "retain": 86_400,
            "timeout": 60,
            "retry": {"max_attempts": 3, "initial_delay": 1, "max_delay": 60},
        },
    },
    "submit_batch": {
        "two jobs": [{"model": "echo", "inputs": {"x": [[1]]}}, {"model": "echo", "inputs": {}}],
        "with defaults and names": [
            {"defaults": {"model": "echo", "priority": "low", "webhook": {"url": HOOK}}},
            {"custom_id": "a", "inputs": {"x": [[1]]}},
            {"custom_id": "b", "inputs": {"x": [[2]]}, "priority": "normal"},
        ],
    },
    "presign_upload": {"a recording": {"size": 1_048_576, "content_type": "audio/flac"}},
    "create_webhook": {
        "some jobs": {"url": HOOK, "events": ["job.failed"], "models": ["echo"], "rate_limit": 50},
        "all jobs": {"url": HOOK},
        "responses and batches for OpenAI's clients": {"url": HOOK, "format": "openai"},
    },
    "change_webhook": {"its events": {"events": ["job.succeeded", "job.failed"]}},
    "put_pipeline": {"two steps": PIPELINE},
    "check_pipeline": {"two steps": PIPELINE},
    "create_key": {
        "to run and read": {"name": "scanner", "scopes": ["read", "submit"], "models": ["echo", "work*"]},
        "with limits": {
            "name": "guest",
            "scopes": ["read"],
            "rate_limit": 10,
            "expires_at": "2030-01-01T00:00:00Z",
        },
    },
    "retry_job": {"on another model": {"target_model": "work_small"}},
    "replay_dead_letters": {
        "of a model": {"filter": {"model": "faulty"}, "limit": 100},
        "of a model, on another one": {"filter": {"model": "faulty"}, "target_model": "echo"},
    },
    "rotate_webhook": {"with an hour of grace": {"grace_period": 3600}},
    "rotate_webhook_secret": {"with an hour of grace": {"grace_period": 3600}},
    "create_recovery": {"a day": {"since": "2026-01-01T00:00:00.000Z", "until": "2026-01-02T00:00:00.000Z"}},
    **openai_examples.REQUESTS,
    "infer": {"one tensor": INFER},
    "infer_version": {"one tensor": INFER},
}
