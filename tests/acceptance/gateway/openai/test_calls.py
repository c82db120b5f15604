"""Models, completions and embeddings with OpenAI's own client."""

from typing import Any

import httpx
import openai
import pytest

from deploy.local.stack import Stack
from tests.support.stacks.key_command import make_key

MODELS = [
    "custom_template_model",
    "embeddings_model",
    "large_embeddings_model",
    "messages_model",
    "tensorrt_llm_bls",
    "vllm_model",
    "whole_messages_model",
]


async def test_models_that_speak_are_listed(client: Any) -> None:
    assert [model.id async for model in client.models.list()] == MODELS
    assert (await client.models.retrieve("vllm_model")).object == "model"


async def test_a_key_sees_the_models_that_it_may_run(stack: Stack, base_url: str) -> None:
    key = await make_key(stack, "default", "--model", "vllm*")
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as limited:
        assert [model.id async for model in limited.models.list()] == ["vllm_model"]
        with pytest.raises(openai.PermissionDeniedError):
            await limited.models.retrieve("messages_model")


@pytest.mark.parametrize("model", ["vllm_model", "tensorrt_llm_bls"])
async def test_a_text_is_continued(client: Any, model: str) -> None:
    answer = await client.completions.create(model=model, prompt="one two three", max_tokens=2, echo=True)
    (choice,) = answer.choices
    assert (answer.id[:5], choice.text, choice.finish_reason) == ("cmpl_", "one two threeone two", "length")
    stream = await client.completions.create(
        model=model, prompt=["one two three"], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == "one two three"
    assert (chunks[-2].choices[0].finish_reason, chunks[-1].usage.prompt_tokens) == ("stop", 3)


async def test_texts_are_embedded(client: Any, base_url: str) -> None:
    answer = await client.embeddings.create(model="embeddings_model", input=["a", "be cool"])  # by default, base64
    vectors = [(each.index, each.embedding) for each in answer.data]
    assert vectors == [(0, [1, 1, 1]), (1, [7, 2, 3])]
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (3, 3)
    floats = await client.embeddings.create(
        model="embeddings_model", input="be cool", encoding_format="float", dimensions=3
    )
    assert floats.data[0].embedding == [7, 2, 3]
    async with httpx.AsyncClient(headers={"Authorization": "Bearer ch_dev"}, timeout=30) as http:
        plain = await http.post(f"{base_url}/embeddings", json={"model": "embeddings_model", "input": "a"})
    assert plain.json()["data"] == [{"object": "embedding", "index": 0, "embedding": [1, 1, 1]}]


async def test_large_vectors_come_from_a_file(stack: Stack, client: Any) -> None:
    """An output of more bytes than a job keeps in its row is in the object store."""
    answer = await client.embeddings.create(model="large_embeddings_model", input=["x", "yy"])
    assert [(len(each.embedding), each.embedding[-1]) for each in answer.data] == [(400_000, 1), (400_000, 2)]
