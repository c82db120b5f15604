"""Requests that the documentation shows, by the type of their body. A test sends them all."""

from typing import Any

EXAMPLES: dict[str, dict[str, Any]] = {
    "SubmitJob": {
        "by name": {"model": "echo", "inputs": {"x": [[1, 2, 3]]}},
        "as in the Open Inference Protocol": {
            "model": "echo",
            "inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}],
        },
        "with all that may be said": {
            "model": "tokens",
            "version": "1",
            "inputs": {"text": ["Hello from the conch"]},
            "priority": "high",
            "webhook": {"url": "https://example.com/hook", "events": ["job.succeeded", "job.failed"]},
            "metadata": {"order": 4711},
            "expires_in": 3600,
            "timeout": 60,
            "retry": {"max_attempts": 3, "initial_delay": 1, "max_delay": 60},
        },
    },
    "CreateWebhook": {
        "all jobs": {"url": "https://example.com/hook"},
        "some": {"url": "https://example.com/hook", "events": ["job.failed"], "models": ["echo"], "rate_limit": 50},
    },
    "ChangeWebhook": {"its events": {"events": ["job.succeeded", "job.failed"]}},
    "RetryJob": {"on another model": {"model": "echo"}},
    "Replay": {"of a model": {"filter": {"model": "faulty"}, "limit": 100}},
    "Rotate": {"with an hour of grace": {"grace_period": 3600}},
    "Recover": {"a day": {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}},
}
