"""Chat completions with OpenAI's own client."""

import base64
from typing import Any

import openai
import pytest

from tests.support.api.api_client import Api
from tests.support.waiting import eventually

HELLO = [{"role": "user", "content": "one two three"}]
PROMPT = "<|im_start|>user one two three<|im_end|> <|im_start|>assistant"  # as the stub says it
CASES = {
    "vllm_model": (PROMPT, 5, 6),
    "tensorrt_llm_bls": (PROMPT, 5, 5),
    "messages_model": ("one two three", 3, 3),
    "custom_template_model": ("<user>one two three</s> <assistant>", 4, 5),
}
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(b"x").decode()}}


@pytest.mark.parametrize("model", CASES)
async def test_each_kind_of_model_answers(client: Any, model: str) -> None:
    answer = await client.chat.completions.create(model=model, messages=HELLO)
    text, prompt_tokens, completion_tokens = CASES[model]
    (choice,) = answer.choices
    assert (choice.message.content, choice.message.role, choice.finish_reason) == (text, "assistant", "stop")
    assert answer.id.startswith("chatcmpl_")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (prompt_tokens, completion_tokens)


@pytest.mark.parametrize("model", CASES)
async def test_each_kind_of_model_streams_the_same(client: Any, model: str) -> None:
    stream = await client.chat.completions.create(
        model=model, messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text, prompt_tokens, completion_tokens = CASES[model]
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert ("".join(pieces), len(pieces) > 1) == (text, True)
    assert (chunks[0].choices[0].delta.role, chunks[-2].choices[0].finish_reason) == ("assistant", "stop")
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (prompt_tokens, completion_tokens)
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_model_that_does_not_stream_is_one_chunk(client: Any) -> None:
    stream = await client.chat.completions.create(model="whole_messages_model", messages=HELLO, stream=True)
    contents = [chunk.choices[0].delta.content async for chunk in stream]
    assert contents == ["one two three", None]


async def test_chunks_arrive_while_the_model_writes(client: Any, api: Api) -> None:
    slow = [{"role": "user", "content": "$slow" + " word" * 40}]
    stream = await client.chat.completions.create(model="messages_model", messages=slow, stream=True)
    chunks = aiter(stream)
    first = await anext(chunks)
    job = await api.get("job_" + first.id.removeprefix("chatcmpl_"))
    assert (first.choices[0].delta.content, job.status) == ("$slow", "processing")
    await stream.close()  # the client leaves
    await api.wait(job.id, "canceled")


async def test_a_client_that_leaves_cancels_its_job(client: Any, api: Api) -> None:
    slow = [{"role": "user", "content": "$slow" + " word" * 100}]
    with pytest.raises(openai.APITimeoutError):
        await client.chat.completions.create(model="messages_model", messages=slow, metadata={"a": "leaves"}, timeout=1)
    await api.wait(await find_job(api, "leaves"), "canceled")


async def test_a_client_with_a_key_comes_back_for_the_answer(client: Any, api: Api) -> None:
    slow = [{"role": "user", "content": "$slow" + " word" * 15}]
    key = {"Idempotency-Key": "comes-back"}
    with pytest.raises(openai.APITimeoutError):
        await client.chat.completions.create(model="messages_model", messages=slow, extra_headers=key, timeout=1)
    raw = await client.chat.completions.with_raw_response.create(
        model="messages_model", messages=slow, extra_headers=key
    )
    answer = raw.parse()
    assert raw.headers["idempotency-replayed"] == "true"
    assert answer.choices[0].message.content == "$slow" + " word" * 15
    job = await api.get(raw.headers["x-charonia-job"])
    assert (job.status, job.attempt) == ("succeeded", 1)
    again = await client.chat.completions.create(model="messages_model", messages=slow, extra_headers=key)
    assert again == answer


async def test_a_stream_with_a_key_comes_again(client: Any) -> None:
    async def read() -> tuple[str, list[str | None]]:
        stream = await client.chat.completions.create(
            model="vllm_model", messages=HELLO, stream=True, extra_headers={"Idempotency-Key": "stream-again"}
        )
        chunks = [chunk async for chunk in stream]
        return chunks[0].id, [chunk.choices[0].delta.content for chunk in chunks]

    assert await read() == await read()


async def test_a_stream_whose_model_fails_repeats_nothing_and_ends_in_an_error(client: Any) -> None:
    failing = [{"role": "user", "content": "$fail after this"}]
    stream = await client.chat.completions.create(model="messages_model", messages=failing, stream=True)
    contents: list[str | None] = []

    async def read() -> None:
        async for chunk in stream:
            contents.append(chunk.choices[0].delta.content)  # noqa: PERF401 -- what came before the error counts

    with pytest.raises(openai.APIError, match="the engine died") as raised:
        await read()
    assert (raised.value.code, contents) == ("inference_failed", ["$fail"])  # of five attempts


async def test_the_job_shows_the_request(client: Any, api: Api) -> None:
    raw = await client.chat.completions.with_raw_response.create(
        model="vllm_model", messages=HELLO, service_tier="flex", metadata={"mine": "1"}, temperature=0
    )
    job = await api.get(raw.headers["x-charonia-job"])
    assert (job.priority, job.metadata) == ("low", {"mine": "1"})
    assert raw.parse().service_tier == "flex"
    assert job.request is not None
    assert job.request["endpoint"] == "/v1/chat/completions"
    assert job.request["body"] == {
        "model": "vllm_model",
        "messages": HELLO,
        "service_tier": "flex",
        "metadata": {"mine": "1"},
        "temperature": 0,
    }


async def test_a_model_with_tools_calls_one(client: Any) -> None:
    asked = {"model": "messages_model", "messages": HELLO, "tools": [TOOL]}
    (choice,) = (await client.chat.completions.create(**asked)).choices
    assert (choice.finish_reason, choice.message.tool_calls[0].function.name) == ("tool_calls", "find")
    stream = await client.chat.completions.create(**asked, stream=True)
    deltas = [chunk.choices[0].delta async for chunk in stream]
    assert deltas[0].tool_calls[0].function.arguments == '{"text": "one two three"}'


async def test_a_model_that_takes_images_gets_them(client: Any) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "see "}, IMAGE]}]
    answer = await client.chat.completions.create(model="messages_model", messages=messages)
    assert answer.choices[0].message.content == "see an image"


async def test_limits_of_tokens_and_stop_texts_are_honoured(client: Any) -> None:
    for model in ("vllm_model", "tensorrt_llm_bls", "messages_model"):
        cut = await client.chat.completions.create(model=model, messages=HELLO, max_completion_tokens=2)
        assert (cut.choices[0].finish_reason, cut.usage.completion_tokens) == ("length", 2)
    for model in ("vllm_model", "tensorrt_llm_bls"):
        stopped = await client.chat.completions.create(model=model, messages=HELLO, stop=["two", "nothing"])
        assert stopped.choices[0].message.content == "<|im_start|>user one "
        stream = await client.chat.completions.create(model=model, messages=HELLO, stop="two", stream=True)
        contents = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(contents) == "<|im_start|>user one "


async def test_a_character_in_two_responses_is_whole(client: Any) -> None:
    split = [{"role": "user", "content": "$split"}]
    answer = await client.chat.completions.create(model="messages_model", messages=split)
    assert answer.choices[0].message.content == "€"
    stream = await client.chat.completions.create(model="messages_model", messages=split, stream=True)
    assert [chunk.choices[0].delta.content async for chunk in stream] == ["€", None]


def test_the_client_without_async_works_too(base_url: str) -> None:
    opened: Any = openai.OpenAI(base_url=base_url, api_key="ch_dev", max_retries=0, timeout=30)
    with opened as client:
        answer = client.chat.completions.create(model="vllm_model", messages=HELLO)
        stream = client.chat.completions.create(model="vllm_model", messages=HELLO, stream=True)
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        assert answer.choices[0].message.content == streamed == PROMPT


async def find_job(api: Api, mark: str) -> str:
    """Return the job with this metadata."""

    async def look() -> str | None:
        return next((job.id for job in await api.list_all_jobs() if job.metadata.get("a") == mark), None)

    return await eventually(look, f"a job with the mark {mark}")
