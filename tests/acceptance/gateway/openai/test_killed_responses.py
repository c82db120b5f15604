"""A kill of every process between a response and its answer changes neither its id nor its text."""

import asyncio
from typing import Any

import openai
import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import restore_stack
from tests.support.api.api_client import Api

SLOW = "$slow" + " word" * 30
KEY = {"Idempotency-Key": "killed"}


def kill_all(stack: Stack) -> None:
    for member in (*stack.services, *stack.servers):
        member.kill()
    restore_stack(stack)


async def test_responses_outlive_every_process(breakable: Stack, client: Any, api: Api) -> None:
    stream = await client.responses.create(model="messages_model", input=SLOW, background=True, stream=True)
    awaited = asyncio.create_task(client.responses.create(model="messages_model", input=SLOW, extra_headers=KEY))
    seen: list[Any] = []
    events = aiter(stream)
    while len(seen) < 8:
        seen.append(await anext(events))
    killing = asyncio.create_task(asyncio.to_thread(kill_all, breakable))
    with pytest.raises(openai.APIConnectionError):
        seen += [event async for event in events]
    with pytest.raises(openai.APIConnectionError):
        await awaited
    await killing
    response_id = seen[0].response.id
    rest = await client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number)
    seen += [event async for event in rest]
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert "".join(event.delta for event in seen if event.type == "response.output_text.delta") == SLOW
    assert (seen[-1].type, seen[-1].response.id) == ("response.completed", response_id)
    assert [event async for event in await client.responses.retrieve(response_id, stream=True)] == seen
    repeated = await client.responses.create(model="messages_model", input=SLOW, extra_headers=KEY)
    assert repeated.output_text == SLOW
    for each in (response_id, repeated.id):
        job = await api.get(f"job_{each.removeprefix('resp_')}")
        assert (job.status, job.attempt <= 2) == ("succeeded", True)
