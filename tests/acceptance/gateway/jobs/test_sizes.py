"""A megabyte in each direction works. Larger bodies are refused before they are read."""

import array
import asyncio
import base64
import json
from collections.abc import Callable
from typing import TypeAlias

import httpx
import pytest

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.api.api_client import Api
from tests.support.receivers.webhook_receiver import Receiver

MEGABYTE = 1024 * 1024
COUNT = MEGABYTE // 4  # elements of FP32
LIMIT = 16 * MEGABYTE
HUGE = 64 * MEGABYTE
BUFFERS = 8 * MEGABYTE  # bytes that the sockets on the way may buffer
CHUNK = b"x" * 65_536
Floats: TypeAlias = "array.array[float]"  # generic only in its stubs


def as_list(values: Floats) -> object:
    return [values.tolist()]


def as_base64(values: Floats) -> object:
    return {"base64": base64.b64encode(values.tobytes()).decode()}


@pytest.mark.parametrize("form", [as_list, as_base64])
async def test_job_with_a_megabyte_of_inputs_and_outputs_succeeds(
    api: Api, receiver: Receiver, form: Callable[[Floats], object]
) -> None:
    inbox = receiver.inbox()
    values = array.array("f", (index / 8 for index in range(COUNT)))
    submitted = await api.submit("echo", {"x": form(values)}, webhook={"url": inbox.url})
    job = await api.wait(submitted.id)
    assert job.status == "succeeded"
    output = job.file("y")
    assert (output.size, output.shape) == (MEGABYTE, [1, COUNT])
    (delivery,) = await inbox.wait()
    event = delivery.verify(await api.callback_secret())
    sent = event.data.file("y")
    assert (sent.file, sent.sha256) == (output.file, output.sha256)
    assert sent.download_url is not None
    async with httpx.AsyncClient(timeout=30) as http:  # without a key
        fetched = await http.get(sent.download_url)
        assert (fetched.status_code, fetched.content) == (
            200,
            array.array("f", (2 * each for each in values)).tobytes(),
        )
        forged = await http.get(sent.download_url.replace("expires=1", "expires=2"))
        assert forged.status_code == 403


@pytest.mark.parametrize("length", [f"content-length: {HUGE}", "transfer-encoding: chunked"])
async def test_body_over_the_limit_is_refused_before_all_of_it_is_read(stack: Stack, length: str) -> None:
    chunked = "chunked" in length
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.settings.gateway_port)
    head = ["POST /v1/jobs HTTP/1.1", "host: charonia", f"authorization: Bearer {DEVELOPMENT_KEY}", length, "", ""]
    writer.write("\r\n".join(head).encode())
    response = asyncio.create_task(read_response_body(reader))
    sent = 0
    while sent < HUGE and not response.done():
        writer.write(b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK) if chunked else CHUNK)
        await writer.drain()
        await asyncio.sleep(0)  # drain() alone does not let the task that reads the response run
        sent += len(CHUNK)
    document = json.loads(await response)
    writer.close()
    assert (document["status"], document["type"]) == (413, "urn:charonia:problem:body_too_large")
    assert sent <= (LIMIT if chunked else 0) + BUFFERS


async def read_response_body(reader: asyncio.StreamReader) -> bytes:
    """Return the body of one response."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
    (length,) = [line.removeprefix("content-length: ") for line in head if line.startswith("content-length: ")]
    return await reader.readexactly(int(length))
