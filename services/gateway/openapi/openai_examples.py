"""Examples of OpenAI's API. An acceptance test sends each request to models that stand in for these."""

from typing import Any

LETTERS = "01m7ysshxnfbevq05b7h55g94z"  # of the job's id
CREATED = 1_795_256_312
USAGE = {"prompt_tokens": 14, "completion_tokens": 9, "total_tokens": 23}
REQUESTS: dict[str, dict[str, Any]] = {
    "create_chat_completion": {
        "a question": {"model": "chat", "messages": [{"role": "user", "content": "What is a conch?"}]},
        "most fields": {
            "model": "chat",
            "messages": [
                {"role": "system", "content": "Answer in one sentence."},
                {"role": "user", "content": [{"type": "text", "text": "What is a conch?"}]},
            ],
            "max_completion_tokens": 100,
            "temperature": 0,
            "seed": 7,
            "stop": ["\n"],
            "service_tier": "flex",
            "metadata": {"order": "4711"},
        },
    },
    "create_completion": {"a text": {"model": "llm", "prompt": "A conch is", "max_tokens": 20}},
    "create_embeddings": {
        "two texts": {"model": "embed", "input": ["a conch", "a shell"], "encoding_format": "float"},
    },
}
MODEL = {"id": "chat", "object": "model", "created": 0, "owned_by": "charonia"}
MESSAGE = {"role": "assistant", "content": "A conch is a large sea snail.", "refusal": None}
ANSWERS: dict[str, Any] = {
    "OpenAIModel": MODEL,
    "OpenAIModelList": {"object": "list", "data": [MODEL]},
    "ChatCompletion": {
        "id": f"chatcmpl_{LETTERS}",
        "object": "chat.completion",
        "created": CREATED,
        "model": "chat",
        "choices": [{"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}],
        "usage": USAGE,
        "service_tier": "default",
    },
    "Completion": {
        "id": f"cmpl_{LETTERS}",
        "object": "text_completion",
        "created": CREATED,
        "model": "llm",
        "choices": [{"index": 0, "text": " a large sea snail.", "logprobs": None, "finish_reason": "stop"}],
        "usage": USAGE | {"prompt_tokens": 4, "total_tokens": 13},
    },
    "EmbeddingList": {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.018, -0.25, 0.5]},
            {"object": "embedding", "index": 1, "embedding": [0.025, -0.125, 0.75]},
        ],
        "model": "embed",
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    },
}
