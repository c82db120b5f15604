"""The API: a job is a row, then a task; the client gets its 202."""

import json
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import asyncpg
from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from benchmarks.peers.celery_fastapi.tasks import run_job

INSERT = "INSERT INTO jobs (id, model, inputs, metadata, webhook_url) VALUES ($1, $2, $3, $4, $5)"
AUTHORIZATION = f"Bearer {os.environ['API_KEY']}"
CONNECTIONS = 10


class Webhook(BaseModel):
    url: str


class Submit(BaseModel):
    model: str
    inputs: dict[str, list[Any]]
    metadata: dict[str, Any] = {}
    webhook: Webhook | None = None


class Accepted(BaseModel):
    id: uuid.UUID
    status: str


@asynccontextmanager
async def open_pool(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        app.state.pool = pool
        yield


app = FastAPI(lifespan=open_pool)


@app.get("/readyz")
async def report_ready() -> None:
    pass


@app.post("/v1/jobs", status_code=202)
async def submit_job(job: Submit, authorization: Annotated[str, Header()] = "") -> Accepted:
    if authorization != AUTHORIZATION:
        raise HTTPException(401)
    job_id = uuid.uuid4()
    url = job.webhook.url if job.webhook else None
    values = job.model, json.dumps(job.inputs), json.dumps(job.metadata), url
    await app.state.pool.execute(INSERT, job_id, *values)
    await run_in_threadpool(run_job.delay, str(job_id))  # Celery publishes synchronously
    return Accepted(id=job_id, status="queued")
