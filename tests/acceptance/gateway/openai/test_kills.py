"""A kill of every process between a call and its answer changes neither its id nor its text."""

import asyncio
from collections.abc import Sequence
from typing import Any

import openai
import pytest

from deploy.local.stack import Stack
from tests.acceptance.conftest import restore_stack
from tests.support.api.api_client import Api
from tests.support.openai_batches import chat, create, read, read_text, wait_for_end, write
from tests.support.telemetry.scraped_metrics import read_metric
from tests.support.waiting import eventually

SLOW = "$slow" + " word" * 60
MESSAGES = [{"role": "user", "content": SLOW}]
MODEL, OTHER = "messages_model", "vllm_model"  # each runs two jobs at a time
SAID = f"<|im_start|>user {SLOW}<|im_end|> <|im_start|>assistant"  # by the other one
LINES = 2
KEY = {"Idempotency-Key": "killed"}
CHAT_KEY = {"Idempotency-Key": "killed-chat"}
MARK = "killed-chat"


def kill_all(stack: Stack) -> None:
    for member in (*stack.services, *stack.servers):
        member.kill()
    restore_stack(stack)


async def test_calls_outlive_every_process(breakable: Stack, client: Any, api: Api) -> None:
    await wait_until_idle(api)
    stream = await client.responses.create(model=MODEL, input=SLOW, background=True, stream=True)
    awaited = asyncio.create_task(client.responses.create(model=MODEL, input=SLOW, extra_headers=KEY))
    talk = {"model": OTHER, "messages": MESSAGES, "metadata": {"mark": MARK}, "extra_headers": CHAT_KEY}
    talking = asyncio.create_task(client.chat.completions.create(**talk))
    batch = await create(client, write([chat(str(number), SLOW, OTHER) for number in range(LINES)]))
    seen: list[Any] = []
    events = aiter(stream)
    while len(seen) < 8:
        seen.append(await anext(events))
    chat_job = await find_running(api, batch.id)
    killing = asyncio.create_task(asyncio.to_thread(kill_all, breakable))
    with pytest.raises(openai.APIConnectionError):
        seen += [event async for event in events]
    for waiting in (awaited, talking):
        with pytest.raises(openai.APIConnectionError):
            await waiting
    await killing

    response_id = seen[0].response.id
    rest = await client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number)
    seen += [event async for event in rest]
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert "".join(event.delta for event in seen if event.type == "response.output_text.delta") == SLOW
    assert (seen[-1].type, seen[-1].response.id) == ("response.completed", response_id)
    assert [event async for event in await client.responses.retrieve(response_id, stream=True)] == seen

    repeated = await client.responses.create(model=MODEL, input=SLOW, extra_headers=KEY)
    answer = await client.chat.completions.create(**talk)
    assert (repeated.output_text, answer.choices[0].message.content) == (SLOW, SAID)
    assert answer.id == chat_job.replace("job_", "chatcmpl_")

    ended = await wait_for_end(client, batch.id)
    lines = await read(client, ended.output_file_id)
    assert [(line["custom_id"], read_text(line)) for line in lines] == [(str(number), SAID) for number in range(LINES)]
    jobs = [chat_job, *(f"job_{each.removeprefix('resp_')}" for each in (response_id, repeated.id))]
    await check_runs(breakable, api, [*jobs, *(line["response"]["request_id"] for line in lines)])


async def wait_until_idle(api: Api) -> None:
    """Return once no job of another test is left: it would count, too."""

    async def is_idle() -> bool:
        return not [job for job in await api.list_all_jobs() if job.finished_at is None]

    await eventually(is_idle, "no job is left")


async def find_running(api: Api, batch_id: str) -> str:
    """Return the job of the chat completion, once it runs, and so does a line of the batch."""

    async def look() -> str | None:
        lines = await api.list_all_jobs(batch=batch_id, status="processing")
        found = [job for job in await api.list_all_jobs(status="processing") if job.metadata.get("mark") == MARK]
        return found[0].id if lines and found else None

    return await eventually(look, "the chat completion and a line of the batch run")


async def check_runs(stack: Stack, api: Api, jobs: Sequence[str]) -> None:
    """Check that each job ran at most once more than needed. Triton counts what it ran since the kill."""
    assert len(set(jobs)) == len(jobs)
    for each in jobs:
        job = await api.get(each)
        assert (job.status, job.attempt <= 2) == ("succeeded", True)
    counts = [await read_metric(stack.triton.metrics_url, "nv_inference_count", model=each) for each in (MODEL, OTHER)]
    assert 0 < sum(counts) <= len(jobs), counts
