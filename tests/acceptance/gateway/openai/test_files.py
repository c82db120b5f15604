"""Files with OpenAI's own client."""

import io
import os
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.openai_batches import chat, create, wait_for_end, write
from tests.support.stacks.key_command import make_key

CONTENT = write([chat("a", "hello"), chat("b", "x", model="no_model")])


@pytest.fixture
async def tenant(stack: Stack, base_url: str) -> AsyncIterator[Any]:
    """OpenAI's client of a new tenant."""
    key = await make_key(stack, f"openai-{uuid.uuid4().hex[:8]}")
    opened: Any = openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=30)
    async with opened as client:
        yield client


async def test_a_file_is_stored_read_and_deleted(client: Any, api: Api, tenant: Any) -> None:
    content = os.urandom(3 * 1024 * 1024)
    file = await client.files.create(file=("große Daten.jsonl", io.BytesIO(content)), purpose="batch")
    assert (file.bytes, file.filename, file.purpose) == (len(content), "große Daten.jsonl", "batch")
    assert file.status == "processed"
    assert 86_390 <= file.expires_at - file.created_at <= 86_410
    assert await client.files.retrieve(file.id) == file
    assert (await client.files.content(file.id)).content == content
    assert (await api.http.get(f"/v1/files/{file.id}")).json()["size"] == len(content)  # it is one of ours
    with pytest.raises(openai.NotFoundError):
        await tenant.files.retrieve(file.id)
    deleted = await client.files.delete(file.id)
    assert (deleted.id, deleted.deleted) == (file.id, True)
    with pytest.raises(openai.NotFoundError):
        await client.files.content(file.id)


async def test_a_file_may_say_for_how_long_it_is_kept(client: Any) -> None:
    expires = {"anchor": "created_at", "seconds": 3600}
    file = await client.files.create(file=("a.txt", b"a"), purpose="user_data", expires_after=expires)
    assert 3590 <= file.expires_at - file.created_at <= 3610
    with pytest.raises(openai.BadRequestError) as raised:
        await client.files.create(file=("a", b"a"), purpose="batch", expires_after=expires | {"seconds": 2_592_000})
    assert raised.value.param == "expires_after[seconds]"


async def test_another_purpose_is_refused(tenant: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="expected `batch`, `user_data`") as raised:
        await tenant.files.create(file=("a", b"a"), purpose="fine-tune")
    assert raised.value.param == "purpose"
    assert [file async for file in tenant.files.list()] == []


async def test_all_files_are_listed_those_of_batches_too(tenant: Any, stack: Stack) -> None:
    batch = await wait_for_end(tenant, (await create(tenant, CONTENT)).id)
    own = [await tenant.files.create(file=(f"{number}.txt", b"a"), purpose="user_data") for number in range(3)]
    oldest_first = [batch.input_file_id, batch.error_file_id, batch.output_file_id, *(file.id for file in own)]
    for limit in (1, 2, 4, 100):
        newest = [file.id async for file in tenant.files.list(limit=limit)]
        oldest = [file.id async for file in tenant.files.list(limit=limit, order="asc")]
        assert (newest, oldest) == (oldest_first[::-1], oldest_first)
    outputs = [file async for file in tenant.files.list(purpose="batch_output", limit=1)]
    assert [(file.id, file.purpose, file.filename) for file in outputs] == [
        (batch.output_file_id, "batch_output", f"{batch.id}_output.jsonl"),
        (batch.error_file_id, "batch_output", f"{batch.id}_errors.jsonl"),
    ]
    assert [file.id async for file in tenant.files.list(purpose="batch")] == [batch.input_file_id]
    assert await tenant.files.retrieve(batch.output_file_id) == outputs[0]
    with pytest.raises(openai.BadRequestError, match="after"):
        await tenant.files.list(after="file_unknown")


async def test_a_file_of_a_batch_goes_with_its_jobs(tenant: Any) -> None:
    batch = await wait_for_end(tenant, (await create(tenant, CONTENT)).id)
    with pytest.raises(openai.ConflictError, match="goes with them"):
        await tenant.files.delete(batch.output_file_id)
    await tenant.files.delete(batch.input_file_id)  # it is read


async def test_a_file_of_ours_has_the_purpose_of_any(client: Any, api: Api) -> None:
    uploaded = (await api.http.post("/v1/files", content=CONTENT)).json()
    file = await client.files.retrieve(uploaded["id"])
    assert (file.purpose, file.filename) == ("user_data", uploaded["id"])
    batch = await client.batches.create(
        input_file_id=uploaded["id"], endpoint="/v1/chat/completions", completion_window="24h"
    )
    assert (await wait_for_end(client, batch.id)).request_counts.completed == 1


@pytest.mark.parametrize(
    ("headers", "content", "status", "code"),
    [
        ({"content-type": "application/json"}, b"{}", 415, "unsupported_media_type"),
        ({"content-type": "multipart/form-data"}, b"", 415, "unsupported_media_type"),
        ({"content-type": "multipart/form-data; boundary=a"}, b"--a\r\nbroken", 400, "malformed_form"),
        ({"content-type": "multipart/form-data; boundary=a"}, b"", 400, "malformed_form"),
        ({"content-type": "multipart/form-data; boundary=a"}, b"--a--", 400, "invalid_value"),
    ],
)
async def test_another_body_is_refused(
    base_url: str, headers: dict[str, str], content: bytes, status: int, code: str
) -> None:
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {DEVELOPMENT_KEY}"}, timeout=30) as http:
        response = await http.post(f"{base_url}/files", content=content, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
