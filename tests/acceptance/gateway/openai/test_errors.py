"""Errors are those from which OpenAI's client raises its own exceptions."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.stacks.key_command import make_key

HELLO = [{"role": "user", "content": "hello"}]
SLOW = [{"role": "user", "content": "$slow" + " word" * 100}]


@pytest.fixture
async def slow_job(client: Any, api: Api) -> AsyncIterator[tuple[str, "asyncio.Task[object]"]]:
    """A job that runs, and the request that waits for it."""
    calling = asyncio.create_task(
        client.chat.completions.create(model="messages_model", messages=SLOW, extra_headers={"Idempotency-Key": "slow"})
    )
    stream = await client.chat.completions.create(
        model="messages_model", messages=SLOW, stream=True, extra_headers={"Idempotency-Key": "slow-stream"}
    )
    first = await anext(aiter(stream))
    yield "job_" + first.id.removeprefix("chatcmpl_"), calling
    calling.cancel()
    await stream.close()


async def test_a_wrong_key_is_an_authentication_error(base_url: str) -> None:
    async with openai.AsyncOpenAI(base_url=base_url, api_key="ch_wrong", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError) as raised:
            await stranger.models.list()
    assert (raised.value.code, raised.value.type) == ("invalid_api_key", "invalid_request_error")


async def test_a_key_without_the_scope_is_denied(stack: Stack, base_url: str) -> None:
    key = await make_key(stack, "default", "--scope", "read")
    opened: Any = openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0)
    async with opened as reader:
        with pytest.raises(openai.PermissionDeniedError, match="needs a key with the scope 'submit'"):
            await reader.chat.completions.create(model="vllm_model", messages=HELLO)


async def test_an_unknown_model_and_path_are_not_found(client: Any) -> None:
    with pytest.raises(openai.NotFoundError, match="did you mean 'vllm_model'") as raised:
        await client.chat.completions.create(model="vlm_model", messages=HELLO)
    assert raised.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError, match="there is no path"):
        await client.post("/images/generations", cast_to=httpx.Response, body={})


@pytest.mark.parametrize(
    ("more", "code", "param"),
    [
        ({"temperature": 5}, "invalid_value", "temperature"),
        ({"n": 2}, "unsupported_parameter", "n"),
        ({"tools": [{"type": "function", "function": {"name": "x"}}]}, "unsupported_parameter", "tools"),
        ({"extra_body": {"temprature": 1}}, "unknown_parameter", "temprature"),
    ],
)
async def test_a_wrong_parameter_is_a_bad_request(client: Any, more: dict[str, object], code: str, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        await client.chat.completions.create(model="vllm_model", messages=HELLO, **more)
    assert (raised.value.code, raised.value.param) == (code, param)


async def test_what_a_model_refuses_is_a_bad_request(client: Any) -> None:
    refused = [{"role": "user", "content": "$refuse"}]
    with pytest.raises(openai.BadRequestError) as raised:
        await client.chat.completions.create(model="whole_messages_model", messages=refused)
    error = raised.value.response.json()["error"]
    assert (error["code"], error["param"], error["message"]) == ("invalid_input", "messages", "messages: refused")
    stream = await client.chat.completions.create(model="whole_messages_model", messages=refused, stream=True)
    with pytest.raises(openai.APIError, match=r"^messages: refused$"):
        await anext(aiter(stream))
    too_long = [{"role": "user", "content": "$too_long"}]
    with pytest.raises(openai.BadRequestError, match="messages: has too many tokens") as raised:
        await client.chat.completions.create(model="whole_messages_model", messages=too_long)
    assert (raised.value.code, raised.value.param) == ("context_length_exceeded", "messages")
    with pytest.raises(openai.BadRequestError, match="it is not polite"):
        await client.chat.completions.create(model="custom_template_model", messages=refused)


async def test_a_body_that_is_not_json_is_a_bad_request(base_url: str) -> None:
    headers = {"Authorization": "Bearer ch_dev"}
    wrong = b'{"model": "vllm_model", "messages": [{"role": "user", "content": "\xff"}]}'
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=30) as http:
        for body in (b"{", b"\xff\xfe{}", wrong, b""):
            answer = await http.post("/chat/completions", content=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "malformed_json")


async def test_a_key_of_another_request_is_unprocessable(client: Any) -> None:
    key = {"Idempotency-Key": "twice"}
    await client.completions.create(model="vllm_model", prompt="hello", extra_headers=key)
    with pytest.raises(openai.UnprocessableEntityError) as raised:
        await client.completions.create(model="vllm_model", prompt="bye", extra_headers=key)
    assert raised.value.param == "Idempotency-Key"


async def test_a_body_at_another_path_is_another_request(client: Any, base_url: str) -> None:
    body = {"model": "embeddings_model", "input": "hello"}
    headers = {"Authorization": "Bearer ch_dev", "Idempotency-Key": "paths"}
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=30) as http:
        assert (await http.post("/embeddings", json=body)).status_code == 200
        assert (await http.post("/completions", json=body)).status_code == 422


async def test_a_canceled_job_is_a_conflict(
    client: Any, api: Api, slow_job: tuple[str, "asyncio.Task[object]"]
) -> None:
    _, calling = slow_job
    running = [job for job in await api.list_all_jobs() if job.status in ("queued", "processing")]
    for job in running:
        await api.http.post(f"/v1/jobs/{job.id}/cancel")
    with pytest.raises(openai.ConflictError) as raised:
        await calling
    assert raised.value.response.headers["x-should-retry"] == "false"


async def test_a_rate_limit_says_what_is_left(stack: Stack, base_url: str) -> None:
    key = await make_key(stack, "default", "--rate-limit", "1")
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as hasty:
        calls = await asyncio.gather(*(hasty.models.list() for _ in range(5)), return_exceptions=True)
    (refused, *_) = [call for call in calls if isinstance(call, openai.RateLimitError)]
    headers = refused.response.headers
    assert (refused.code, headers["x-ratelimit-limit-requests"]) == ("rate_limit_exceeded", "1")
    assert (headers["x-ratelimit-remaining-requests"], int(headers["retry-after"])) == ("0", 1)
    assert headers["x-ratelimit-reset-requests"].endswith("s")


@pytest.mark.parametrize(("content", "text"), [("$break", "SecurityError"), ("$endless", "takes more than 1 s")])
async def test_a_failing_template_is_a_server_error(client: Any, content: str, text: str) -> None:
    with pytest.raises(openai.InternalServerError, match=text) as raised:
        await client.chat.completions.create(
            model="custom_template_model", messages=[{"role": "user", "content": content}]
        )
    assert raised.value.code == "template_failed"


async def test_a_timeout_and_a_missing_server_are_connection_errors(client: Any) -> None:
    with pytest.raises(openai.APITimeoutError):
        await client.chat.completions.create(model="messages_model", messages=SLOW, timeout=0.5)
    async with openai.AsyncOpenAI(base_url="http://127.0.0.1:9/openai/v1", api_key="x", max_retries=0) as lost:
        with pytest.raises(openai.APIConnectionError):
            await lost.models.list()


async def test_a_prompt_of_ten_megabytes_is_answered(client: Any) -> None:
    content = "word " * 2_000_000
    answer = await client.chat.completions.create(
        model="vllm_model", messages=[{"role": "user", "content": content}], max_tokens=2
    )
    assert answer.choices[0].message.content == "<|im_start|>user word"
    with pytest.raises(openai.APIStatusError) as raised:
        await client.chat.completions.create(model="vllm_model", messages=[{"role": "user", "content": content * 2}])
    assert (raised.value.status_code, raised.value.code) == (413, "body_too_large")


CALLS: dict[str, dict[str, Any]] = {
    "/chat/completions": {"model": "vllm_model", "messages": HELLO},
    "/completions": {"model": "vllm_model", "prompt": "hello"},
    "/embeddings": {"model": "embeddings_model", "input": "hello"},
    "/responses": {"model": "vllm_model", "input": "hello"},
}


@pytest.mark.parametrize("path", CALLS)
async def test_a_key_of_an_erased_job_gets_no_empty_answer(api: Api, base_url: str, path: str) -> None:
    for more in ({}, *([{"stream": True}] if path != "/embeddings" else [])):
        headers = {"Authorization": "Bearer ch_dev", "Idempotency-Key": f"erased-{path[1:]}-{len(more)}"}
        async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=30) as http:
            first = await http.post(path, json=CALLS[path] | more)
            job = first.headers["x-charonia-job"]
            await api.wait(job)
            assert (await api.http.post(f"/v1/jobs/{job}/erase")).is_success
            again = await http.post(path, json=CALLS[path] | more)
        error = again.json()["error"]
        assert (again.status_code, error["code"], again.headers["x-should-retry"]) == (410, "erased", "false")
        assert error["message"].startswith(
            f"the answer was erased with {job}; to ask again, send the request with a new"
        )


async def test_a_key_of_a_canceled_job_says_to_use_another(client: Any, api: Api) -> None:
    key = {"Idempotency-Key": "canceled"}
    asked = {"model": "messages_model", "messages": SLOW, "extra_headers": key}
    stream = await client.chat.completions.create(**asked, stream=True)
    job = "job_" + (await anext(aiter(stream))).id.removeprefix("chatcmpl_")
    await api.http.post(f"/v1/jobs/{job}/cancel")
    with pytest.raises(openai.APIError, match="is canceled; to ask again, send the request with a new Idempotency-Key"):
        async for _ in stream:
            pass
