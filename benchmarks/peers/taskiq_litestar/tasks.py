"""The tasks: an inference with its result's row and its webhook, and a webhook once more. All on one event loop."""

import json
import os
import time
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import asyncpg
from taskiq import TaskiqEvents, TaskiqState
from tritonclient.grpc.aio import InferenceServerClient

from benchmarks.peers.common import SECONDS, make_headers, make_tensors, read_outputs, render
from benchmarks.peers.taskiq_litestar.broker import broker

START = """
UPDATE jobs SET status = 'running', started_at = clock_timestamp() WHERE id = $1 AND status <> 'succeeded'
RETURNING id, status, model, inputs, metadata, webhook_url, outputs, created_at, started_at, ended_at
"""
FINISH = """
UPDATE jobs SET status = 'succeeded', outputs = $2, ended_at = clock_timestamp() WHERE id = $1
RETURNING id, status, model, inputs, metadata, webhook_url, outputs, created_at, started_at, ended_at
"""
READ = "SELECT * FROM jobs WHERE id = $1"
CONNECTIONS = 10
TIMEOUT = aiohttp.ClientTimeout(total=SECONDS)


class Clients:
    """What the tasks of a worker share."""

    database: "asyncpg.Pool[asyncpg.Record]"
    receivers: aiohttp.ClientSession
    triton: InferenceServerClient
    types: dict[str, dict[str, str]]  # of the inputs of each model that was asked for

    async def open(self, cleanup: AsyncExitStack) -> None:
        pool = asyncpg.create_pool(
            os.environ["DATABASE_URL"], min_size=CONNECTIONS, max_size=CONNECTIONS, init=read_json_as_values
        )
        self.database = await cleanup.enter_async_context(pool)
        session = aiohttp.ClientSession(timeout=TIMEOUT, connector=aiohttp.TCPConnector(limit=0))
        self.receivers = await cleanup.enter_async_context(session)
        self.triton = await cleanup.enter_async_context(InferenceServerClient(os.environ["TRITON_URL"]))
        self.types = {}


async def read_json_as_values(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


clients, opened = Clients(), AsyncExitStack()


@broker.on_event(TaskiqEvents.WORKER_STARTUP)
async def open_clients(_state: TaskiqState) -> None:
    await clients.open(opened)


@broker.on_event(TaskiqEvents.WORKER_SHUTDOWN)
async def close_clients(_state: TaskiqState) -> None:
    await opened.aclose()


@broker.task(retry_on_error=True, max_retries=3)
async def run_job(job_id: str) -> None:
    """Run a job and send its webhook; one that has run already, before its worker died, sends only the webhook."""
    job = await clients.database.fetchrow(START, job_id)
    if job is not None:
        outputs, seconds = await infer(job["model"], job["inputs"])
        job = await clients.database.fetchrow(FINISH, job_id, outputs)
    else:
        job, seconds = await clients.database.fetchrow(READ, job_id), 0.0
    if job is None or job["webhook_url"] is None:
        return
    body = render(dict(job), seconds)
    try:
        await post(job_id, job["webhook_url"], body)
    except (aiohttp.ClientError, TimeoutError):
        await send_webhook.kicker().with_labels(delay=5).kiq(job_id, job["webhook_url"], body)


@broker.task(retry_on_error=True, max_retries=10)
async def send_webhook(message_id: str, url: str, body: str) -> None:
    """Send a webhook once more, and again until it arrives."""
    await post(message_id, url, body)


async def infer(model: str, inputs: dict[str, list[Any]]) -> tuple[dict[str, Any], float]:
    """Return the outputs, and the seconds that they took."""
    if (types := clients.types.get(model)) is None:
        metadata = await clients.triton.get_model_metadata(model)
        types = clients.types[model] = {each.name: each.datatype for each in metadata.inputs}
    tensors = make_tensors(inputs, types)
    begin = time.perf_counter()
    result = await clients.triton.infer(model, tensors, client_timeout=SECONDS)
    return read_outputs(result), time.perf_counter() - begin


async def post(message_id: str, url: str, body: str) -> None:
    """Send a signed webhook; raise aiohttp's ClientError unless the receiver takes it."""
    headers = make_headers(message_id, body)
    request = clients.receivers.post(url, data=body.encode(), headers=headers, allow_redirects=False)
    async with request as response:
        if not 200 <= response.status < 300:
            raise aiohttp.ClientError(f"the receiver answered {response.status}")
