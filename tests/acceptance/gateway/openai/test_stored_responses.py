"""Responses in the background, with OpenAI's own client: poll, resume, cancel, delete, and list their input."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.stacks.key_command import make_key
from tests.support.waiting import eventually

SLOW = "$slow" + " word" * 15
ENDLESS = "$slow" + " word" * 200
UNKNOWN = "resp_01m8hscxvvfz4vjz9xty5ajyby"


async def poll(client: Any, response_id: str) -> Any:
    """Return the response once it has ended."""

    async def look() -> Any:
        found = await client.responses.retrieve(response_id)
        return found if found.status not in ("queued", "in_progress") else None

    return await eventually(look, f"the end of {response_id}")


def name_job(response_id: str) -> str:
    return "job_" + response_id.removeprefix("resp_")


@pytest.fixture
async def running(client: Any, api: Api) -> AsyncIterator[Any]:
    """A response in the background whose model writes."""
    response = await client.responses.create(model="messages_model", input=ENDLESS, background=True)
    await api.wait(name_job(response.id), "processing")
    yield response
    await client.responses.cancel(response.id)


async def test_a_response_in_the_background_is_polled(client: Any, api: Api) -> None:
    response = await client.responses.create(model="messages_model", input=SLOW, background=True)
    assert (response.status, response.background, response.output) == ("queued", True, [])
    ended = await poll(client, response.id)
    assert (ended.id, ended.status, ended.output_text) == (response.id, "completed", SLOW)
    assert (await api.get(name_job(response.id))).status == "succeeded"


async def test_a_stream_is_resumed_after_a_cut_in_the_middle(client: Any, api: Api) -> None:
    stream = await client.responses.create(model="messages_model", input=SLOW, background=True, stream=True)
    seen = []
    async for event in stream:
        seen.append(event)
        if sum(each.type == "response.output_text.delta" for each in seen) == 3:
            break
    await stream.close()  # the client leaves, and the job goes on
    response_id = seen[0].response.id
    assert (await api.get(name_job(response_id))).status == "processing"
    rest = await client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number)
    seen += [event async for event in rest]
    whole = [event async for event in await client.responses.retrieve(response_id, stream=True)]
    assert seen == whole
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert [event.type for event in seen[:5]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert seen[-1].response.output_text == SLOW
    last = whole[-1].sequence_number
    nothing = await client.responses.retrieve(response_id, stream=True, starting_after=last)
    assert [event async for event in nothing] == []
    beyond = await client.responses.retrieve(response_id, stream=True, starting_after=999)
    (error,) = [event async for event in beyond]
    assert (error.type, error.code, error.param) == ("error", "invalid_value", "starting_after")
    assert f"has the number {last};" in error.message


async def test_the_helper_of_the_client_resumes_too(client: Any) -> None:
    response = await client.responses.create(model="messages_model", input="one two", background=True)
    async with client.responses.stream(response_id=response.id, starting_after=5) as stream:
        events = [event async for event in stream]
    assert (events[0].sequence_number, events[-1].type) == (6, "response.completed")
    assert (await stream.get_final_response()).output_text == "one two"


async def test_a_running_response_is_canceled_once(client: Any, api: Api, running: Any) -> None:
    stream = await client.responses.retrieve(running.id, stream=True)
    canceled = await client.responses.cancel(running.id)
    assert (canceled.id, canceled.status, canceled.output) == (running.id, "cancelled", [])
    assert await client.responses.cancel(running.id) == canceled
    assert await client.responses.retrieve(running.id) == canceled
    last = [event async for event in stream][-1]
    assert (last.type, last.response.status) == ("response.failed", "cancelled")
    assert (await api.get(name_job(running.id))).status == "canceled"


async def test_only_what_runs_in_the_background_can_be_canceled(client: Any) -> None:
    awaited = await client.responses.create(model="vllm_model", input="one")
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.cancel(awaited.id)
    assert raised.value.code == "not_in_background"
    ended = await client.responses.create(model="vllm_model", input="one", background=True)
    completed = await poll(client, ended.id)
    assert await client.responses.cancel(ended.id) == completed


async def test_a_deleted_response_is_gone(client: Any, api: Api) -> None:
    response = await client.responses.create(model="vllm_model", input="one", metadata={"a": "b"})
    raw = await client.responses.with_raw_response.delete(response.id)
    assert raw.http_response.json() == {"id": response.id, "object": "response", "deleted": True}
    await client.responses.delete(response.id)  # again
    for call in (client.responses.retrieve, client.responses.cancel, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            await call(response.id)
    job = await api.get(name_job(response.id))
    assert (job.status, job.request, job.metadata, job.outputs) == ("succeeded", None, {}, None)


async def test_a_running_response_cannot_be_deleted(client: Any, running: Any) -> None:
    with pytest.raises(openai.ConflictError, match="cancel it"):
        await client.responses.delete(running.id)


async def test_a_key_needs_the_right_to_delete(client: Any, stack: Stack, base_url: str) -> None:
    response = await client.responses.create(model="vllm_model", input="one")
    key = await make_key(stack, "default", "--scope", "submit", "--scope", "read")
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as limited:
        with pytest.raises(openai.PermissionDeniedError):
            await limited.responses.delete(response.id)


async def test_what_is_not_a_stored_response_of_the_tenant_is_not_found(
    client: Any, stack: Stack, base_url: str
) -> None:
    chat = await client.chat.completions.create(model="vllm_model", messages=[{"role": "user", "content": "one"}])
    unstored = await client.responses.create(model="vllm_model", input="one", store=False)
    stored = await client.responses.create(model="vllm_model", input="one")
    letters = chat.id.removeprefix("chatcmpl_")
    for missing in (UNKNOWN, "nothing", f"resp_{letters}", unstored.id, stored.id.replace("resp_", "job_")):
        for call in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                await call(missing)
    key = await make_key(stack, "stranger")
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as stranger:
        for call in (stranger.responses.retrieve, stranger.responses.cancel, stranger.responses.delete):
            with pytest.raises(openai.NotFoundError):
                await call(stored.id)


async def test_the_input_is_listed_in_pages(client: Any) -> None:
    messages = [{"role": "user", "content": f"number {number}"} for number in range(5)]
    response = await client.responses.create(model="vllm_model", input=messages)
    newest = await client.responses.input_items.list(response.id, limit=2)
    assert [item.content[0].text for item in newest.data] == ["number 4", "number 3"]
    oldest = [item async for item in client.responses.input_items.list(response.id, limit=2, order="asc")]
    assert [item.content[0].text for item in oldest] == [message["content"] for message in messages]
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.input_items.list(response.id, after="msg_1")
    assert raised.value.param == "after"


async def test_a_number_is_only_for_streams(client: Any) -> None:
    response = await client.responses.create(model="vllm_model", input="one")
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.retrieve(response.id, extra_query={"starting_after": 1})
    assert raised.value.param == "starting_after"


async def test_a_key_names_one_response(client: Any) -> None:
    key = {"Idempotency-Key": "one-response"}
    asked = {
        "model": "messages_model",
        "input": SLOW,
        "background": True,
        "service_tier": "flex",
        "metadata": {"a": "b"},
    }
    first = await client.responses.create(**asked, extra_headers=key)
    assert (first.service_tier, first.metadata) == ("flex", {"a": "b"})
    assert await client.responses.create(**asked, extra_headers=key) == first
    with pytest.raises(openai.UnprocessableEntityError):
        await client.responses.create(model="messages_model", input=SLOW, extra_headers=key)
    await poll(client, first.id)


async def test_a_key_repeats_a_response_whose_previous_one_is_deleted(client: Any) -> None:
    previous = await client.responses.create(model="vllm_model", input="one")
    asked = {"model": "vllm_model", "input": "two", "previous_response_id": previous.id}
    key = {"Idempotency-Key": "continues"}
    first = await client.responses.create(**asked, extra_headers=key)
    await client.responses.delete(previous.id)
    assert await client.responses.create(**asked, extra_headers=key) == first


async def test_a_client_that_leaves_cancels_unless_it_has_a_key(client: Any, api: Api) -> None:
    stream = await client.responses.create(model="messages_model", input=ENDLESS, stream=True)
    first = await anext(aiter(stream))
    await stream.close()
    await api.wait(name_job(first.response.id), "canceled")
    key = {"Idempotency-Key": "leaves"}
    with pytest.raises(openai.APITimeoutError):
        await client.responses.create(model="messages_model", input=SLOW, extra_headers=key, timeout=1)
    response = await client.responses.create(model="messages_model", input=SLOW, extra_headers=key)
    assert response.output_text == SLOW
    assert (await api.get(name_job(response.id))).attempt == 1
