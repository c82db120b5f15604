"""Batches of jobs: submit them, and wait for their end."""

from collections.abc import AsyncIterator, Sequence

import httpx
import msgspec

from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import Batch, BatchAccepted
from tests.support.waiting import eventually

LINES = {"content-type": "application/x-ndjson"}


def echo(value: int, **options: object) -> dict[str, object]:
    """Return an item for the model `echo`."""
    return {"model": "echo", "inputs": {"x": [[value]]}, **options}


def write_lines(items: Sequence[object]) -> bytes:
    """Return the items as JSON lines."""
    return b"".join(msgspec.json.encode(item) + b"\n" for item in items)


async def send_batch(api: Api, content: bytes | AsyncIterator[bytes], **headers: str) -> httpx.Response:
    """Send JSON lines as a batch. Underscores in names of headers become hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.http.post("/v1/batches", content=content, headers=LINES | named, timeout=60)


async def submit_batch(api: Api, items: Sequence[object], **headers: str) -> BatchAccepted:
    """Submit a batch of these items and return it as accepted."""
    response = await send_batch(api, write_lines(items), **headers)
    batch = read(response, 202, BatchAccepted)
    assert response.headers["location"] == f"/v1/batches/{batch.id}"
    return batch


async def get_batch(api: Api, batch_id: str) -> Batch:
    return read(await api.http.get(f"/v1/batches/{batch_id}"), 200, Batch)


async def wait_for_batch(api: Api, batch_id: str, within: float = 45.0) -> Batch:
    """Return the batch once it is completed."""

    async def completed() -> Batch | None:
        batch = await get_batch(api, batch_id)
        return batch if batch.status == "completed" else None

    return await eventually(completed, f"{batch_id} is completed", within)
