"""Batches with OpenAI's own client: the lines of a file become jobs, and the jobs lines of two files."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.openai_batches import CHAT, EMBEDDINGS, chat, create, read, read_text, wait_for_end, write
from tests.support.stacks.key_command import make_key
from tests.support.waiting import eventually

RESPONSES = "/v1/responses"
LINES = 1000
SLOW = "$slow" + " word" * 100  # 10 s
BAD: list[dict[str, Any] | bytes] = [
    b'{"custom_id": "broken", ',
    b'{"custom_id": "bytes", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "\xff"}}',
    b"[]",
    dict(chat("0", "twice")),
    dict(chat("unknown", "x", model="no_model")),
    dict(chat("elsewhere", "x", url=EMBEDDINGS)),
    dict(chat("get", "x", method="GET")),
    dict(chat("more", "x", more=1)),
    {"custom_id": "hot", "method": "POST", "url": CHAT, "body": {"model": "whole_messages_model", "temperature": 9}},
    {"custom_id": "stream", "method": "POST", "url": CHAT, "body": chat("", "x")["body"] | {"stream": True}},
]


@pytest.fixture
async def tenant(stack: Stack, base_url: str) -> AsyncIterator[Any]:
    """OpenAI's client of a new tenant."""
    key = await make_key(stack, f"openai-{uuid.uuid4().hex[:8]}")
    opened: Any = openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=30)
    async with opened as client:
        yield client


async def test_a_thousand_lines_with_ten_bad_ones(tenant: Any) -> None:
    good = [chat(str(number), f"text {number}") for number in range(LINES - len(BAD))]
    lines = [*good[:500], *BAD, *good[500:]]
    batch = await create(tenant, write(lines), metadata={"order": "4711"})
    assert (batch.status, batch.request_counts.total, batch.endpoint) == ("validating", LINES, CHAT)
    ended = await wait_for_end(tenant, batch.id, 120)
    assert (ended.status, ended.errors, ended.metadata) == ("completed", None, {"order": "4711"})
    counts = ended.request_counts
    assert (counts.total, counts.completed, counts.failed) == (LINES, LINES - len(BAD), len(BAD))
    assert ended.created_at <= ended.in_progress_at <= ended.completed_at <= ended.expires_at
    outputs = await read(tenant, ended.output_file_id)
    assert {line["custom_id"]: read_text(line) for line in outputs} == {
        str(number): f"text {number}" for number in range(len(good))
    }
    assert {(line["response"]["status_code"], line["error"]) for line in outputs} == {(200, None)}
    assert len({line["id"] for line in outputs}) == len(good)
    errors = await read(tenant, ended.error_file_id)
    assert [(line["custom_id"], *find_error(line)) for line in errors] == [
        (None, 400, "malformed_json", None),
        ("bytes", 400, "malformed_json", None),
        (None, 400, "invalid_value", None),
        ("0", 400, "duplicate_custom_id", "custom_id"),
        ("unknown", 404, "model_not_found", None),
        ("elsewhere", 400, "url_mismatch", "url"),
        ("get", 400, "invalid_value", "method"),
        ("more", 400, "unknown_parameter", "more"),
        ("hot", 400, "invalid_value", "temperature"),
        ("stream", 400, "unsupported_parameter", "stream"),
    ]


def find_error(line: dict[str, Any]) -> tuple[int, str, str | None]:
    response = line["response"]
    error = response["body"]["error"]
    return response["status_code"], error["code"], error["param"]


async def test_what_a_model_refuses_names_the_parameter_of_the_line(client: Any) -> None:
    refused = chat("a", "", url=RESPONSES, body={"model": "whole_messages_model", "input": "$too_long"})
    batch = await wait_for_end(client, (await create(client, write([refused]), RESPONSES)).id)
    (line,) = await read(client, batch.error_file_id)
    assert find_error(line) == (400, "context_length_exceeded", "input")


async def test_a_line_is_a_job_with_its_request(tenant: Any, client: Any, api: Api) -> None:
    batch = await wait_for_end(client, (await create(client, write([chat("a", "hello")]))).id)
    (line,) = await read(client, batch.output_file_id)
    job = (await api.http.get(f"/v1/jobs/{line['response']['request_id']}")).json()
    assert (job["priority"], job["request"]["endpoint"]) == ("low", CHAT)
    assert job["request"]["body"] == chat("a", "hello")["body"]
    own = (await api.http.get(f"/v1/batches/{batch.id}")).json()
    assert (own["status"], own["total"], own["counts"]["succeeded"]) == ("completed", 1, 1)
    with pytest.raises(openai.NotFoundError):
        await tenant.batches.retrieve(batch.id)
    with pytest.raises(openai.NotFoundError):
        await tenant.files.content(batch.output_file_id)


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("/v1/completions", {"model": "vllm_model", "prompt": "one two three", "max_tokens": 2, "echo": True}),
        (EMBEDDINGS, {"model": "embeddings_model", "input": ["a", "be cool"]}),
        ("/v1/responses", {"model": "vllm_model", "input": "one two three", "instructions": "Say it."}),
        (CHAT, {"model": "vllm_model", "messages": [{"role": "user", "content": "a b stop c"}], "stop": "stop"}),
        (CHAT, {"model": "custom_template_model", "messages": [{"role": "user", "content": "rendered apart"}]}),
    ],
)
async def test_each_endpoint_answers_as_a_single_call(client: Any, endpoint: str, body: dict[str, Any]) -> None:
    line = {"custom_id": "a", "method": "POST", "url": endpoint, "body": body}
    batch = await wait_for_end(client, (await create(client, write([line]), endpoint)).id)
    (output,) = await read(client, batch.output_file_id)
    single = await client.post(endpoint.removeprefix("/v1"), cast_to=object, body=body)
    assert drop_own(output["response"]["body"]) == drop_own(single)


def drop_own(answer: Any) -> Any:
    """Return an answer without what no other one has, and without its priority."""
    if isinstance(answer, list):
        return [drop_own(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    own = ("id", "created", "created_at", "completed_at", "service_tier")
    return {name: drop_own(each) for name, each in answer.items() if name not in own}


async def test_a_cancelled_batch_keeps_what_it_has(tenant: Any) -> None:
    lines = [chat("quick", "hello")]  # of another model, so that it waits for no slow one
    lines += [chat(f"slow {number}", SLOW, "messages_model") for number in range(200)]
    batch = await create(tenant, write(lines))

    async def first_is_there() -> Any:
        found = await tenant.batches.retrieve(batch.id)
        return found if found.request_counts.completed else None

    running = await eventually(first_is_there, "the first line has ended")
    assert running.status == "in_progress"
    early, *_ = await read(tenant, running.output_file_id)
    assert (early["custom_id"], read_text(early)) == ("quick", "hello")
    assert (await tenant.batches.cancel(batch.id)).status == "cancelling"
    ended = await wait_for_end(tenant, batch.id)
    assert ended.status == "cancelled"
    assert ended.cancelling_at <= ended.cancelled_at
    outputs, errors = await read(tenant, ended.output_file_id), await read(tenant, ended.error_file_id)
    assert len(outputs) + len(errors) == len(lines)
    assert outputs[0]["custom_id"] == "quick"
    assert {(line["response"], line["error"]["code"]) for line in errors} == {(None, "batch_cancelled")}
    with pytest.raises(openai.ConflictError, match="the batch is cancelled"):
        await tenant.batches.cancel(batch.id)


async def test_lines_that_did_not_begin_in_time_expire(tenant: Any) -> None:
    lines = [chat("quick", "hello")]  # of another model, so that it waits for no slow one
    lines += [chat(f"slow {number}", "$slow" + " word" * 20, "messages_model") for number in range(100)]
    batch = await create(tenant, write(lines), completion_window="5s")
    assert batch.expires_at - batch.created_at == 5
    ended = await wait_for_end(tenant, batch.id)
    assert (ended.status, ended.completed_at) == ("expired", None)
    outputs, errors = await read(tenant, ended.output_file_id), await read(tenant, ended.error_file_id)
    assert outputs[0]["custom_id"] == "quick"
    assert len(outputs) + len(errors) == len(lines)
    assert {(line["response"], line["error"]["code"]) for line in errors} == {(None, "batch_expired")}


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"", "empty_file", None),
        (b"\n \n", "empty_file", None),
        (b"a,b\n1,2\n", "invalid_json_line", 1),
        (b"\n\x89PNG\r\n\x00\xff" + bytes(100_000), "invalid_json_line", 2),
        (b"x" * (2 * 1024 * 1024), "invalid_json_line", 1),
        (b"{}\n" * 100_001, "too_many_tasks", None),
    ],
)
async def test_a_file_without_json_lines_fails_the_batch(client: Any, content: bytes, code: str, line: int) -> None:
    batch = await create(client, content)
    assert (batch.status, batch.errors.data[0].code, batch.errors.data[0].line) == ("failed", code, line)
    await wait_for_end(client, batch.id)

    async def has_ended() -> Any:
        found = await client.batches.retrieve(batch.id)
        return found if found.failed_at else None

    ended = await eventually(has_ended, "the batch has ended")
    assert (ended.output_file_id, ended.error_file_id, ended.request_counts.completed) == (None, None, 0)


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"endpoint": "/v1/images"}, "endpoint"),
        ({"completion_window": "1 day"}, "completion_window"),
        ({"completion_window": "24h\n"}, "completion_window"),
        ({"completion_window": "31d"}, "completion_window"),
        ({"input_file_id": "file_unknown"}, "input_file_id"),
        ({"input_file_id": "file_01m8hscxvvfz4vjz9xty5ajyby"}, "input_file_id"),
        ({"metadata": {"a": "b" * 600}}, "metadata.a"),
        ({"extra_body": {"output_expires_after": {"anchor": "created_at", "seconds": 3600}}}, "output_expires_after"),
        ({"extra_body": {"priority": 1}}, "priority"),
    ],
)
async def test_a_wrong_request_is_refused(client: Any, changes: dict[str, Any], param: str) -> None:
    file = await client.files.create(file=("lines.jsonl", b"{}"), purpose="batch")
    request = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"} | changes
    with pytest.raises(openai.BadRequestError) as raised:
        await client.batches.create(**request)
    assert raised.value.param == param


async def test_batches_are_listed_newest_first(tenant: Any) -> None:
    made = [(await create(tenant, write([chat("a", "hello")]))).id for _ in range(5)]
    assert [batch.id async for batch in tenant.batches.list(limit=2)] == made[::-1]
    page = await tenant.batches.list(limit=3, after=made[3])
    assert ([batch.id for batch in page.data], page.has_more) == ([made[2], made[1], made[0]], False)
    with pytest.raises(openai.BadRequestError, match="after"):
        await tenant.batches.list(after="batch_unknown")


async def test_the_same_key_is_the_same_batch(client: Any) -> None:
    file = await client.files.create(file=("lines.jsonl", write([chat("a", "hello")])), purpose="batch")
    options = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    key = {"Idempotency-Key": uuid.uuid4().hex}
    found = {(await client.batches.create(**options, extra_headers=key)).id for _ in range(2)}
    assert len(found) == 1
    with pytest.raises(openai.UnprocessableEntityError, match="was used for another request"):
        await client.batches.create(**options | {"completion_window": "1h"}, extra_headers=key)


async def test_a_batch_lives_through_a_kill_of_its_gateway(stack: Stack, client: Any) -> None:
    """Neither a line is lost, nor is one a job twice."""
    lines = [chat(str(number), f"text {number}") for number in range(1200)]
    batch = await create(client, write(lines))
    (gateway,) = stack.gateways

    async def has_begun() -> bool:
        return bool((await client.batches.retrieve(batch.id)).request_counts.completed)

    await eventually(has_begun, "a line has ended")
    await asyncio.to_thread(gateway.process.kill)
    await asyncio.to_thread(gateway.start)
    ended = await wait_for_end(client, batch.id, 180)
    assert (ended.status, ended.request_counts.completed) == ("completed", len(lines))
    outputs = await read(client, ended.output_file_id)
    assert [line["custom_id"] for line in outputs] == [str(number) for number in range(len(lines))]
    assert [read_text(line) for line in outputs] == [f"text {number}" for number in range(len(lines))]
