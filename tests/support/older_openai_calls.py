"""A program that calls each part of OpenAI's API with the client that it finds, and prints what came: JSON.

Its arguments are the base URL and the key. It is run with an older version of the client on its path.
"""

import asyncio
import json
import sys
from typing import Any

import openai

HELLO: list[Any] = [{"role": "user", "content": "one two"}]


def call(client: Any) -> dict[str, Any]:
    stream = client.chat.completions.create(model="messages_model", messages=HELLO, stream=True)
    return {
        "version": openai.__version__,
        "models": [model.id for model in client.models.list()],
        "chat": client.chat.completions.create(model="messages_model", messages=HELLO).choices[0].message.content,
        "stream": [chunk.choices[0].delta.content for chunk in stream],
        "completion": client.completions.create(model="vllm_model", prompt="one two").choices[0].text,
        "response": client.responses.create(model="messages_model", input="one two").output_text,
        "embedding": client.embeddings.create(model="embeddings_model", input="one two").data[0].embedding,
        "error": name_error(client),
    }


def name_error(client: Any) -> list[str | None]:
    try:
        client.chat.completions.create(model="vllm_model", messages=HELLO, n=2)
    except openai.BadRequestError as error:
        return [error.code, error.param]
    return []


async def call_async(client: Any) -> list[str | None]:
    async with client:
        stream = await client.chat.completions.create(model="messages_model", messages=HELLO, stream=True)
        return [chunk.choices[0].delta.content async for chunk in stream]


def main(base_url: str, key: str) -> None:
    options: dict[str, Any] = {"base_url": base_url, "api_key": key, "max_retries": 0, "timeout": 30}
    with openai.OpenAI(**options) as client:
        found = call(client)
    found["async"] = asyncio.run(call_async(openai.AsyncOpenAI(**options)))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
