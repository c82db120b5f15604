"""Responses with OpenAI's own client: awaited, streamed, in a row, and what is refused."""

import asyncio
import json
from typing import Any

import openai
import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.stacks.key_command import make_key
from tests.support.waiting import eventually

PROMPT = "<|im_start|>user one two three<|im_end|> <|im_start|>assistant"  # as the stub says it
CASES = {
    "vllm_model": (PROMPT, 5, 6),
    "tensorrt_llm_bls": (PROMPT, 5, 5),
    "messages_model": ("one two three", 3, 3),
    "custom_template_model": ("<user>one two three</s> <assistant>", 4, 5),
}
SLOW = "$slow" + " word" * 40
UNKNOWN = "resp_01m8hscxvvfz4vjz9xty5ajyby"


@pytest.mark.parametrize("model", CASES)
async def test_each_kind_of_model_answers(client: Any, model: str) -> None:
    response = await client.responses.create(model=model, input="one two three")
    text, input_tokens, output_tokens = CASES[model]
    assert (response.output_text, response.status, response.error) == (text, "completed", None)
    assert (response.usage.input_tokens, response.usage.output_tokens) == (input_tokens, output_tokens)
    assert response.id.startswith("resp_")
    assert response.completed_at >= response.created_at
    assert await client.responses.retrieve(response.id) == response


@pytest.mark.parametrize("model", [*CASES, "whole_messages_model"])
async def test_each_kind_of_model_streams(client: Any, model: str) -> None:
    async with client.responses.stream(model=model, input="one two three") as stream:
        events = [event async for event in stream]
    final = await stream.get_final_response()
    text = CASES.get(model, ("one two three",))[0]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert ("".join(deltas), final.output_text) == (text, text)
    assert (len(deltas) > 1) == (model in CASES)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (await client.responses.retrieve(final.id)).output == (await client.responses.retrieve(final.id)).output
    whole = [event async for event in await client.responses.retrieve(final.id, stream=True)]
    assert [event.type for event in whole] == [event.type for event in events]


async def test_instructions_come_first_and_the_job_shows_the_request(client: Any, api: Api) -> None:
    raw = await client.responses.with_raw_response.create(
        model="messages_model",
        instructions="be brief",
        input=[{"role": "user", "content": [{"type": "input_text", "text": "$request"}]}],
        temperature=0,
        service_tier="flex",
        metadata={"mine": "1"},
    )
    response = raw.parse()
    asked = json.loads(response.output_text)
    said = [(message["role"], message["content"]) for message in asked["messages"]]
    assert (said, asked["temperature"]) == ([("system", "be brief"), ("user", "$request")], 0)
    assert (response.metadata, response.service_tier, response.instructions) == ({"mine": "1"}, "flex", "be brief")
    job = await api.get(raw.headers["x-charonia-job"])
    assert (job.priority, job.metadata) == ("low", {"mine": "1"})
    assert job.request is not None
    assert job.request["endpoint"] == "/v1/responses"


async def test_an_answer_that_is_cut_is_incomplete(client: Any) -> None:
    for model in ("vllm_model", "tensorrt_llm_bls", "messages_model"):
        response = await client.responses.create(model=model, input="one two three", max_output_tokens=2)
        assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert response.output[0].status == "incomplete"
        assert await client.responses.retrieve(response.id) == response
    stream = await client.responses.create(model="vllm_model", input="one", max_output_tokens=2, stream=True)
    last = [event async for event in stream][-1]
    assert (last.type, last.response.status) == ("response.incomplete", "incomplete")


async def test_three_turns_are_one_conversation(client: Any) -> None:
    first = await client.responses.create(model="vllm_model", input="one", instructions="not carried over")
    second = await client.responses.create(
        model="messages_model", input="two", previous_response_id=first.id, max_output_tokens=1
    )
    third = await client.responses.create(model="messages_model", input="$request", previous_response_id=second.id)
    said = [(each["role"], each["content"]) for each in json.loads(third.output_text)["messages"]]
    assert said == [
        ("user", "one"),
        ("assistant", first.output_text),
        ("user", "two"),
        ("assistant", "two"),
        ("user", "$request"),
    ]
    assert third.previous_response_id == second.id
    again = await client.responses.create(
        model="messages_model", input=[*first.output, {"role": "user", "content": "$request"}]
    )
    assert json.loads(again.output_text)["messages"][0] == {"role": "assistant", "content": first.output_text}


async def test_a_response_in_the_background_may_take_a_result_at_once(client: Any) -> None:
    """It has ended when it is created, and so is the answer to the same request again."""
    body = {"model": "vllm_model", "input": "asked twice", "extra_body": {"reuse": {"max_age": 600}}}
    first = await client.responses.create(**body)
    for _ in range(2):
        key = {"Idempotency-Key": "asked-twice"}
        taken = await client.responses.create(**body, background=True, extra_headers=key)
        assert (taken.status, taken.output_text, taken.usage) == ("completed", first.output_text, first.usage)
        assert taken.id != first.id


async def test_a_response_that_cannot_be_continued_is_an_error(
    client: Any, stack: Stack, base_url: str, failed: Any
) -> None:
    async def refuse(previous: str, by: Any = client) -> tuple[str | None, str | None]:
        with pytest.raises(openai.BadRequestError) as raised:
            await by.responses.create(model="vllm_model", input="and?", previous_response_id=previous)
        return raised.value.code, raised.value.param

    missing = ("previous_response_not_found", "previous_response_id")
    stored = await client.responses.create(model="vllm_model", input="one")
    unstored = await client.responses.create(model="vllm_model", input="one", store=False)
    chat = await client.chat.completions.create(model="vllm_model", messages=[{"role": "user", "content": "one"}])
    letters = chat.id.removeprefix("chatcmpl_")
    for previous in (UNKNOWN, "nothing", unstored.id, f"resp_{letters}", f"chatcmpl_{letters}"):
        assert await refuse(previous) == missing
    key = await make_key(stack, "stranger")
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as stranger:
        assert await refuse(stored.id, stranger) == missing
    running = await client.responses.create(model="messages_model", input=SLOW, background=True)
    assert await refuse(running.id) == ("previous_response_not_completed", "previous_response_id")
    await client.responses.cancel(running.id)
    assert await refuse(failed.id) == ("previous_response_not_completed", "previous_response_id")
    continued = await client.responses.create(model="vllm_model", input="two", previous_response_id=stored.id)
    await client.responses.delete(stored.id)
    assert await refuse(stored.id) == missing
    assert await refuse(continued.id) == missing


@pytest.fixture(scope="module")
async def failed(client: Any) -> Any:
    """A response whose model fails."""
    response = await client.responses.create(model="vllm_model", input="$fail now", background=True)

    async def look() -> Any:
        found = await client.responses.retrieve(response.id)
        return found if found.status not in ("queued", "in_progress") else None

    return await eventually(look, "the end of a response")


async def test_a_failure_is_an_error_a_status_or_an_event(client: Any, failed: Any) -> None:
    assert (failed.status, failed.error.code, failed.error.type) == ("failed", "server_error", "inference_failed")
    assert "the engine died" in failed.error.message
    failing = {"model": "vllm_model", "input": "$fail now"}
    awaited = asyncio.create_task(client.responses.create(**failing))
    last = [event async for event in await client.responses.create(**failing, stream=True)][-1]
    with pytest.raises(openai.InternalServerError, match="the engine died") as raised:
        await awaited
    assert raised.value.response.headers["x-should-retry"] == "false"
    with pytest.raises(openai.BadRequestError, match="refused"):
        await client.responses.create(model="whole_messages_model", input="$refuse")
    assert (last.type, last.response.status, last.response.error.type) == (
        "response.failed",
        "failed",
        "inference_failed",
    )


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"max_tool_calls": 1}, "max_tool_calls"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"truncation": "auto"}, "truncation"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"moderation": {"model": "x"}}, "moderation"),
        ({"prompt": {"id": "x"}}, "prompt"),
        ({"background_options": {"completion_window": "2h"}}, "background_options"),
        ({"access_programs": {"cyber": "standard"}}, "access_programs"),
        ({"image": {"context_compression": "auto"}}, "image"),
        ({"reasoning": {"effort": "low"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "auto"}}, "reasoning.summary"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options.prewarm"),
        ({"background": True, "store": False}, "store"),
        ({"stream_options": {"include_obfuscation": False}}, "stream_options"),
        ({"temperature": 3}, "temperature"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"service_tier": "scale"}, "service_tier"),
        ({"model": "embeddings_model"}, "model"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content[0].type",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]},
            "input[0].content[0].type",
        ),
        ({"extra_body": {"stop": "x"}}, "stop"),
    ],
)
async def test_what_is_not_text_is_refused(client: Any, more: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.create(**{"model": "vllm_model", "input": "hello"} | more)
    assert raised.value.param == param


async def test_a_large_conversation_is_kept_and_continued(client: Any) -> None:
    """It has more bytes than what is read with a job by itself."""
    long = "word " * 100_000
    first = await client.responses.create(model="vllm_model", input=long, max_output_tokens=2)
    assert await client.responses.retrieve(first.id) == first
    (item,) = (await client.responses.input_items.list(first.id)).data
    assert item.content[0].text == long
    second = await client.responses.create(
        model="vllm_model", input="one", previous_response_id=first.id, max_output_tokens=2
    )
    assert (second.output_text, second.usage.input_tokens) == ("<|im_start|>user word", 100_008)


def test_the_client_without_async_works_too(base_url: str) -> None:
    with openai.OpenAI(base_url=base_url, api_key="ch_dev", max_retries=0, timeout=30) as client:
        response = client.responses.create(model="vllm_model", input="one two three")
        stream = client.responses.create(model="vllm_model", input="one two three", stream=True)
        streamed = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert response.output_text == streamed == PROMPT
