"""Large bodies: a megabyte each way works, too much is refused before it is read."""

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
from tests.acceptance.client import Api
from tests.acceptance.receiver import Receiver

MEGABYTE = 1024 * 1024
COUNT = MEGABYTE // 4  # elements of FP32
LIMIT = 16 * MEGABYTE
HUGE = 64 * MEGABYTE
BUFFERED = 8 * MEGABYTE  # what the sockets on the way may hold
CHUNK = b"x" * 65_536
Floats: TypeAlias = "array.array[float]"  # generic in its stubs only


def as_list(values: Floats) -> object:
    return [values.tolist()]


def as_base64(values: Floats) -> object:
    return {"base64": base64.b64encode(values.tobytes()).decode()}


@pytest.mark.parametrize("form", [as_list, as_base64])
async def test_a_megabyte_goes_in_and_comes_out(api: Api, receiver: Receiver, form: Callable[[Floats], object]) -> None:
    inbox = receiver.inbox()
    values = array.array("f", (index / 8 for index in range(COUNT)))
    submitted = await api.submit("echo", {"x": form(values)}, webhook={"url": inbox.url})
    job = await api.wait(submitted.id)
    assert job.status == "succeeded"
    assert job.output("y") == [2 * value for value in values]

    (delivery,) = await inbox.wait()
    event = delivery.verify(await api.callback_secret())
    assert event.data.outputs is None
    assert event.data.outputs_url is not None
    async with httpx.AsyncClient() as anybody:  # without a key
        fetched = await anybody.get(event.data.outputs_url)
        assert (fetched.status_code, fetched.json()["outputs"][0]["data"]) == (200, job.output("y"))
        forged = await anybody.get(event.data.outputs_url.replace("expires=1", "expires=2"))
        assert forged.status_code == 403


@pytest.mark.parametrize("length", [f"content-length: {HUGE}", "transfer-encoding: chunked"])
async def test_a_body_over_the_limit_is_refused_before_it_is_read_whole(stack: Stack, length: str) -> None:
    chunked = "chunked" in length
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.settings.gateway_port)
    head = ["POST /v1/jobs HTTP/1.1", "host: charonia", f"authorization: Bearer {DEVELOPMENT_KEY}", length, "", ""]
    writer.write("\r\n".join(head).encode())
    answer = asyncio.create_task(read_answer(reader))
    sent = 0
    while sent < HUGE and not answer.done():
        writer.write(b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK) if chunked else CHUNK)
        await writer.drain()
        await asyncio.sleep(0)  # drain() alone lets nobody else run, and the answer may have come
        sent += len(CHUNK)
    document = json.loads(await answer)
    writer.close()
    assert (document["status"], document["type"]) == (413, "urn:charonia:problem:body_too_large")
    assert sent <= (LIMIT if chunked else 0) + BUFFERED


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """The body of one answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
    (length,) = [line.removeprefix("content-length: ") for line in head if line.startswith("content-length: ")]
    return await reader.readexactly(int(length))
