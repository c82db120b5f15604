"""Examples of OpenAI's API. An acceptance test sends each request to models that stand in for these."""

from typing import Any

LETTERS = "01m7ysshxnfbevq05b7h55g94z"  # of the job's id
CREATED = 1_795_256_312
FILE_ID = "file_01m8hscxvvfz4vjz9xty5ajyby"
BATCH_LETTERS = "01m7ystfs0e0x8s13t679vdnpf"
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
    "create_openai_batch": {
        "a file": {
            "input_file_id": FILE_ID,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"order": "4711"},
        },
    },
    "create_embeddings": {
        "two texts": {"model": "embed", "input": ["a conch", "a shell"], "encoding_format": "float"},
    },
    "create_response": {
        "a question": {"model": "chat", "input": "What is a conch?"},
        "in the background": {
            "model": "chat",
            "instructions": "Answer in one sentence.",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "What is a conch?"}]}],
            "background": True,
            "max_output_tokens": 100,
            "temperature": 0,
            "service_tier": "flex",
            "metadata": {"order": "4711"},
        },
    },
}
MODEL: dict[str, Any] = {"id": "chat", "object": "model", "created": 0, "owned_by": "charonia"}
MODEL |= {"endpoints": ["/v1/chat/completions", "/v1/responses"]}
FILE = {
    "id": FILE_ID,
    "object": "file",
    "bytes": 36_677,
    "created_at": CREATED,
    "expires_at": CREATED + 86_400,
    "filename": "questions.jsonl",
    "purpose": "batch",
    "status": "processed",
    "status_details": None,
}
BATCH = {
    "id": f"batch_{BATCH_LETTERS}",
    "object": "batch",
    "endpoint": "/v1/chat/completions",
    "errors": None,
    "input_file_id": FILE_ID,
    "completion_window": "24h",
    "status": "in_progress",
    "output_file_id": f"file_output_{BATCH_LETTERS}",
    "error_file_id": None,
    "created_at": CREATED,
    "in_progress_at": CREATED,
    "expires_at": CREATED + 86_400,
    "finalizing_at": None,
    "completed_at": None,
    "failed_at": None,
    "expired_at": None,
    "cancelling_at": None,
    "cancelled_at": None,
    "request_counts": {"total": 100, "completed": 12, "failed": 0},
    "metadata": {"order": "4711"},
}
MESSAGE = {"role": "assistant", "content": "A conch is a large sea snail.", "refusal": None}
RESPONSE: dict[str, Any] = {
    "id": f"resp_{LETTERS}",
    "object": "response",
    "created_at": CREATED,
    "completed_at": CREATED + 1,
    "status": "completed",
    "background": False,
    "model": "chat",
    "output": [
        {
            "id": f"msg_{LETTERS}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"text": MESSAGE["content"], "type": "output_text", "annotations": [], "logprobs": []}],
        }
    ],
    "error": None,
    "incomplete_details": None,
    "usage": {
        "input_tokens": 14,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 23,
    },
    "instructions": None,
    "previous_response_id": None,
    "max_output_tokens": None,
    "temperature": None,
    "top_p": None,
    "text": {"format": {"type": "text"}},
    "reasoning": {"effort": None, "summary": None},
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "max_tool_calls": None,
    "metadata": {},
    "service_tier": "default",
    "store": True,
    "user": None,
    "safety_identifier": None,
    "prompt_cache_key": None,
}
ANSWERS: dict[str, Any] = {
    "OpenAIModel": MODEL,
    "OpenAIModelList": {"object": "list", "data": [MODEL]},
    "OpenAIFile": FILE,
    "OpenAIFileList": {"object": "list", "data": [FILE], "first_id": FILE_ID, "last_id": FILE_ID, "has_more": False},
    "DeletedFile": {"id": FILE_ID, "object": "file", "deleted": True},
    "OpenAIBatch": BATCH,
    "OpenAIBatchList": {
        "object": "list",
        "data": [BATCH],
        "first_id": BATCH["id"],
        "last_id": BATCH["id"],
        "has_more": False,
    },
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
    "OpenAIResponse": RESPONSE,
    "cancel_response 200": RESPONSE
    | {"background": True, "status": "cancelled", "completed_at": None, "output": [], "usage": None},
    "DeletedResponse": {"id": RESPONSE["id"], "object": "response", "deleted": True},
    "InputItemList": {
        "object": "list",
        "data": [
            {
                "id": f"msg_{LETTERS}_0",
                "type": "message",
                "role": "user",
                "status": "completed",
                "content": [{"type": "input_text", "text": "What is a conch?"}],
            }
        ],
        "first_id": f"msg_{LETTERS}_0",
        "last_id": f"msg_{LETTERS}_0",
        "has_more": False,
    },
}
