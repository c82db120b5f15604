"""Scenarios of OpenAI's API: files, and batches of their lines."""

import contextlib
import json
import secrets
from typing import Any

import httpx

from tests.support.lost_answers.world import World
from tests.support.waiting import eventually

FILES, BATCHES = "/openai/v1/files", "/openai/v1/batches"
CHAT = "/v1/chat/completions"
LINES = 3


async def run_lines(world: World) -> None:
    """No model here speaks this API, so each line gets its error."""
    client, batch = world.client, await create(world)

    async def completed() -> bool:
        return bool((await client.get(f"{BATCHES}/{batch}"))["status"] == "completed")

    await eventually(completed, f"{batch} is completed", 60)
    assert (await client.get(f"{BATCHES}/{batch}"))["request_counts"] == {
        "total": LINES,
        "completed": 0,
        "failed": LINES,
    }
    await client.get(BATCHES, limit=1, after=(await client.get(BATCHES, limit=1))["last_id"])
    errors = f"file_errors_{batch.removeprefix('batch_')}"
    for order in ("asc", "desc"):
        await client.get(FILES, order=order)
    await client.get(f"{FILES}/{errors}")

    async def read() -> list[Any] | None:
        """Return all lines: a lost answer ends the stream."""
        with contextlib.suppress(httpx.HTTPError):
            text = (await client.call("GET", f"{FILES}/{errors}/content", 200)).text
            return [json.loads(line)["custom_id"] for line in text.splitlines()]
        return None

    assert await eventually(read, "all lines come") == [str(number) for number in range(LINES)]


async def create(world: World) -> str:
    """Upload a file, and create one batch of it. Return its id."""
    body = {"model": "echo", "messages": []}
    lines = [{"custom_id": str(number), "method": "POST", "url": CHAT, "body": body} for number in range(LINES)]
    content = "\n".join(map(json.dumps, lines))
    form = {"file": ("lines.jsonl", content.encode()), "purpose": (None, "batch")}
    file = (await world.client.call("POST", FILES, 200, files=form)).json()["id"]
    request = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    headers = {"Idempotency-Key": secrets.token_hex(8)}
    found = {
        (await world.client.call("POST", BATCHES, 200, json=request, headers=headers)).json()["id"] for _ in range(2)
    }
    (batch,) = found
    return str(batch)


SCENARIOS = (run_lines,)
