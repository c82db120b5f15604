"""A program that calls each part of OpenAI's API with the client that it finds, and prints what came: JSON.

Its arguments are the base URL and the key. It makes the same calls with `async` and without.
A test runs it with the current package, and with an older version on its path.
"""

import asyncio
import inspect
import json
import sys
import time
from typing import Any

import openai

HELLO: list[Any] = [{"role": "user", "content": "one two"}]
CHAT = "/v1/chat/completions"
LINE = {"custom_id": "a", "method": "POST", "url": CHAT, "body": {"model": "messages_model", "messages": HELLO}}
WAIT_SECONDS, POLL_SECONDS = 30.0, 0.1


async def get(answer: Any) -> Any:
    """Return what a call answers, whichever client has made it."""
    return await answer if inspect.isawaitable(answer) else answer


async def collect(answer: Any) -> list[Any]:
    """Return the chunks of a stream, or the items of a list."""
    found = answer if hasattr(answer, "__aiter__") else await get(answer)
    return [each async for each in found] if hasattr(found, "__aiter__") else list(found)


async def call(client: Any) -> dict[str, Any]:
    chat = await get(client.chat.completions.create(model="messages_model", messages=HELLO))
    stream = await collect(client.chat.completions.create(model="messages_model", messages=HELLO, stream=True))
    completion = await get(client.completions.create(model="vllm_model", prompt="one two"))
    response = await get(client.responses.create(model="messages_model", input="one two"))
    events = await collect(client.responses.create(model="messages_model", input="one two", stream=True))
    embedded = await get(client.embeddings.create(model="embeddings_model", input="one two"))
    return {
        "models": "vllm_model" in [model.id for model in await collect(client.models.list())],
        "chat": chat.choices[0].message.content,
        "stream": [chunk.choices[0].delta.content for chunk in stream],
        "completion": completion.choices[0].text,
        "response": response.output_text,
        "events": [events[0].type, events[-1].type],
        "background": await run_in_background(client),
        "embedding": embedded.data[0].embedding,
        "batch": await run_batch(client),
        "error": await name_error(client),
    }


async def run_in_background(client: Any) -> list[str]:
    """Return the text of a response in the background, what is left of it, and the state of one that was cancelled."""
    slow = await get(client.responses.create(model="messages_model", input="$slow" + " word" * 100, background=True))
    response = await get(client.responses.create(model="messages_model", input="one two", background=True))
    await get(client.responses.cancel(slow.id))
    cancelled = await wait(client.responses, slow.id, "cancelled")
    completed = await wait(client.responses, response.id, "completed")
    await get(client.responses.delete(response.id))
    try:
        await get(client.responses.retrieve(response.id))
    except openai.NotFoundError:
        return [completed.output_text, "deleted", cancelled.status]
    return [completed.output_text, "there", cancelled.status]


async def run_batch(client: Any) -> list[str]:
    """Return the purpose of a file, the name of the only line of its batch, and what the model said."""
    content = json.dumps(LINE).encode()
    file = await get(client.files.create(file=("lines.jsonl", content), purpose="batch"))
    batch = await get(client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h"))
    ended = await wait(client.batches, batch.id, "completed")
    line = json.loads((await get(client.files.content(ended.output_file_id))).text)
    listed = [each.id for each in (await get(client.batches.list(limit=1))).data]
    await get(client.files.delete(file.id))
    return [
        file.purpose,
        "listed" if listed == [batch.id] else "missing",
        line["custom_id"],
        line["response"]["body"]["choices"][0]["message"]["content"],
    ]


async def wait(calls: Any, object_id: str, status: str) -> Any:
    """Return a response or a batch once it has this status, or as it is when the time is over."""
    deadline = time.monotonic() + WAIT_SECONDS
    found = await get(calls.retrieve(object_id))
    while found.status != status and time.monotonic() < deadline:
        await asyncio.sleep(POLL_SECONDS)
        found = await get(calls.retrieve(object_id))
    return found


async def name_error(client: Any) -> list[str | None]:
    try:
        await get(client.chat.completions.create(model="vllm_model", messages=HELLO, n=2))
    except openai.BadRequestError as error:
        return [error.code, error.param]
    return []


async def main(base_url: str, key: str) -> None:
    options: dict[str, Any] = {"base_url": base_url, "api_key": key, "max_retries": 0, "timeout": 30}
    with openai.OpenAI(**options) as client:
        found = {"version": openai.__version__, "sync": await call(client)}
    async with openai.AsyncOpenAI(**options) as client:
        found["async"] = await call(client)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
