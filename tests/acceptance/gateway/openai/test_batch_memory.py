"""A gateway holds only some lines of a batch, however large they are."""

from collections.abc import AsyncIterator
from typing import Any

import httpx

from deploy.local.services import DEVELOPMENT_KEY
from deploy.local.stack import Stack
from tests.support.api.large_outputs import forget_peak, measure_peak
from tests.support.openai_batches import CHAT, chat, create, wait_for_end, write

MIB = 1024 * 1024
LINES = 60
TEXT = "x" * (MIB - 1024)  # a line may have 1 MiB
GROWTH = 64 * MIB  # less than all lines have, and their outputs


def list_lines() -> list[bytes]:
    lines = [write([chat(str(number), TEXT)]) for number in range(LINES)]
    return [*lines, b'{"custom_id": "long", "body": "' + b"x" * MIB + b'"}\n']


async def test_lines_of_a_mebibyte_take_little_memory(stack: Stack, client: Any, base_url: str) -> None:
    (gateway,) = stack.gateways
    await wait_for_end(client, (await create(client, write([chat("a", "hello")]))).id)
    forget_peak(gateway)
    before = measure_peak(gateway)
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {DEVELOPMENT_KEY}"}, timeout=120) as http:
        response = await http.post(f"{base_url}/files", content=send_form(), headers=FORM)
        file = response.json()["id"]
        batch = await client.batches.create(input_file_id=file, endpoint=CHAT, completion_window="24h", timeout=60)
        assert batch.request_counts.total == LINES + 1
        ended = await wait_for_end(client, batch.id, 180)
        assert (ended.request_counts.completed, ended.request_counts.failed) == (LINES, 1)
        size = 0
        async with http.stream("GET", f"{base_url}/files/{ended.output_file_id}/content") as outputs:
            async for part in outputs.aiter_raw():
                size += len(part)
    assert size > LINES * len(TEXT)
    grown = measure_peak(gateway) - before
    assert grown < GROWTH, f"grew by {grown // MIB} MiB"


FORM = {"Content-Type": "multipart/form-data; boundary=lines"}


async def send_form() -> AsyncIterator[bytes]:
    """Yield a form, so that it has no length."""
    yield b'--lines\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    yield b'--lines\r\nContent-Disposition: form-data; name="file"; filename="lines.jsonl"\r\n\r\n'
    for line in list_lines():
        yield line
    yield b"\r\n--lines--\r\n"
