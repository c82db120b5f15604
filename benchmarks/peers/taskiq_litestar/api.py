"""The API: a job is a row, then a task; the client gets its 202."""

import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from litestar import Litestar, Request, get, post
from litestar.exceptions import NotAuthorizedException
from msgspec import Struct

from benchmarks.peers.taskiq_litestar.broker import broker
from benchmarks.peers.taskiq_litestar.tasks import run_job

INSERT = "INSERT INTO jobs (id, model, inputs, metadata, webhook_url) VALUES ($1, $2, $3, $4, $5)"
AUTHORIZATION = f"Bearer {os.environ['API_KEY']}"
CONNECTIONS = 10


class Webhook(Struct):
    url: str


class Submit(Struct):
    model: str
    inputs: dict[str, list[Any]]
    metadata: dict[str, Any] = {}
    webhook: Webhook | None = None


class Accepted(Struct):
    id: uuid.UUID
    status: str


@asynccontextmanager
async def open_clients(app: Litestar) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        app.state.pool = pool
        await broker.startup()
        yield
        await broker.shutdown()


@get("/readyz")
async def report_ready() -> None:
    pass


@post("/v1/jobs", status_code=202)
async def submit_job(data: Submit, request: "Request[Any, Any, Any]") -> Accepted:
    if request.headers.get("authorization") != AUTHORIZATION:
        raise NotAuthorizedException
    job_id = uuid.uuid4()
    url = data.webhook.url if data.webhook else None
    values = data.model, json.dumps(data.inputs), json.dumps(data.metadata), url
    await request.app.state.pool.execute(INSERT, job_id, *values)
    await run_job.kiq(str(job_id))
    return Accepted(id=job_id, status="queued")


app = Litestar([report_ready, submit_job], lifespan=[open_clients], openapi_config=None)
