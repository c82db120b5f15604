"""Batches of files, made and read with OpenAI's own client."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.waiting import eventually

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
MODEL = "whole_messages_model"
Line = Mapping[str, Any]


def chat(custom_id: str, text: str, model: str = MODEL, **changes: Any) -> Line:
    """Return a line that asks a model to say a text."""
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body} | changes


def write(lines: Iterable[Line | bytes]) -> bytes:
    """Return lines as a file. Bytes are a line as they are."""
    return b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)


async def create(client: Any, content: bytes, endpoint: str = CHAT, **options: Any) -> Any:
    """Upload a file, and create a batch of it."""
    file = await client.files.create(file=("lines.jsonl", content), purpose="batch")
    window = options.pop("completion_window", "24h")
    return await client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window=window, **options)


async def wait_for_end(client: Any, batch_id: str, within: float = 60.0) -> Any:
    """Return a batch once it has ended."""

    async def poll() -> Any:
        batch = await client.batches.retrieve(batch_id)
        return batch if batch.status in ("completed", "failed", "expired", "cancelled") else None

    return await eventually(poll, f"{batch_id} ends", within)


async def read(client: Any, file_id: str) -> list[dict[str, Any]]:
    """Return the lines of a file."""
    content = await client.files.content(file_id)
    return [json.loads(line) for line in content.text.splitlines()]


def read_text(line: Line) -> str:
    """Return what the model said in a line."""
    return str(line["response"]["body"]["choices"][0]["message"]["content"])
