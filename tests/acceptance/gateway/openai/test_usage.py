"""Tokens are counted as the answers tell them, once for each job."""

from collections import Counter
from typing import Any

import openai

from deploy.local.stack import Stack
from tests.acceptance.conftest import open_client
from tests.support.stacks.key_command import make_key
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

MODELS = ("vllm_model", "tensorrt_llm_bls", "messages_model")
SAY: dict[str, Any] = {"messages": [{"role": "user", "content": "one two three"}]}


async def read_tokens(stack: Stack, kind: str) -> float:
    """Return what all dispatchers have counted of these models."""
    urls = [f"{each.url}/metrics" for each in stack.dispatchers]
    return sum(
        [
            await read_metric(url, "charonia_tokens_total", model=model, kind=kind)
            for url in urls
            for model in (*MODELS, "embeddings_model")
        ]
    )


async def test_usage_has_the_tokens_of_all_answers(stack: Stack, base_url: str) -> None:
    key = await make_key(stack, "tokens")
    before = {kind: await read_tokens(stack, kind) for kind in ("prompt", "completion")}
    expected: Counter[tuple[str, str]] = Counter()

    def note(model: str, usage: Any) -> None:
        expected[model, "prompt_tokens"] += usage.prompt_tokens
        expected[model, "completion_tokens"] += getattr(usage, "completion_tokens", 0)

    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=30) as client:
        for model in MODELS:
            for _ in range(2):  # the second is the same job
                answer = await client.chat.completions.create(
                    model=model, extra_headers={"Idempotency-Key": model}, **SAY
                )
            note(model, answer.usage)
            stream = await client.chat.completions.create(
                model=model, stream=True, stream_options={"include_usage": True}, **SAY
            )
            note(model, [chunk async for chunk in stream][-1].usage)
        note("embeddings_model", (await client.embeddings.create(model="embeddings_model", input=["a b", "c"])).usage)
        await client.chat.completions.create(model="whole_messages_model", **SAY)  # it tells nothing

    async with open_client(stack, key) as api:
        used: dict[str, Any] = {}

        async def is_counted() -> bool:
            used.update({each["model"]: each for each in (await api.http.get("/v1/usage")).json()["items"]})
            return "whole_messages_model" in used and sum(each["jobs"]["succeeded"] for each in used.values()) == 8

        await eventually(is_counted, "all jobs are counted")
    assert {(model, name): used[model][name] for model, name in expected} == dict(expected)
    assert (used["whole_messages_model"]["prompt_tokens"], used["whole_messages_model"]["completion_tokens"]) == (0, 0)
    for kind, count in before.items():
        assert await read_tokens(stack, kind) == count + sum(
            number for (_, name), number in expected.items() if name == f"{kind}_tokens"
        )
