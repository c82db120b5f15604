"""The tasks: an inference with its result's row and its webhook, and a webhook once more.

The clients are made on first use, because a worker may fork before. All of them may be shared by threads.
"""

import functools
import json
import os
import time
from typing import Any

import urllib3
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool
from tritonclient.grpc import InferenceServerClient

from benchmarks.peers.celery_fastapi.app import app
from benchmarks.peers.common import CONCURRENCY, SECONDS, Row, make_headers, make_tensors, read_outputs, render

START = """
UPDATE jobs SET status = 'running', started_at = clock_timestamp() WHERE id = %s AND status <> 'succeeded'
RETURNING id, status, model, inputs, metadata, webhook_url, outputs, created_at, started_at, ended_at
"""
FINISH = """
UPDATE jobs SET status = 'succeeded', outputs = %s, ended_at = clock_timestamp() WHERE id = %s
RETURNING id, status, model, inputs, metadata, webhook_url, outputs, created_at, started_at, ended_at
"""
READ = "SELECT * FROM jobs WHERE id = %s"


@functools.cache
def database() -> "ConnectionPool[Any]":
    options = {"autocommit": True, "row_factory": dict_row}
    return ConnectionPool(os.environ["DATABASE_URL"], min_size=1, max_size=CONCURRENCY, kwargs=options, open=True)


@functools.cache
def triton() -> InferenceServerClient:
    return InferenceServerClient(os.environ["TRITON_URL"])


@functools.cache
def receivers() -> urllib3.PoolManager:
    return urllib3.PoolManager(maxsize=CONCURRENCY, retries=False, timeout=SECONDS)


@functools.cache
def input_types(model: str) -> dict[str, str]:
    return {each.name: each.datatype for each in triton().get_model_metadata(model).inputs}


@app.task(autoretry_for=(Exception,), retry_backoff=True, max_retries=3)
def run_job(job_id: str) -> None:
    """Run a job and send its webhook; one that has run already, before its worker died, sends only the webhook."""
    job = execute(START, job_id)
    if job is not None:
        outputs, seconds = infer(job["model"], job["inputs"])
        job = execute(FINISH, json.dumps(outputs), job_id)
    else:
        job, seconds = execute(READ, job_id), 0.0
    if job is None or job["webhook_url"] is None:
        return
    body = render(job, seconds)
    try:
        post(job_id, job["webhook_url"], body)
    except (urllib3.exceptions.HTTPError, OSError):
        send_webhook.apply_async((job_id, job["webhook_url"], body), countdown=5)


@app.task(autoretry_for=(urllib3.exceptions.HTTPError, OSError), retry_backoff=5, max_retries=10)
def send_webhook(message_id: str, url: str, body: str) -> None:
    """Send a webhook once more, and again until it arrives."""
    post(message_id, url, body)


def execute(statement: str, *values: object) -> Row | None:
    with database().connection() as connection:
        row: Row | None = connection.execute(statement, values).fetchone()
        return row


def infer(model: str, inputs: dict[str, list[Any]]) -> tuple[dict[str, Any], float]:
    """Return the outputs, and the seconds that they took."""
    tensors = make_tensors(inputs, input_types(model))
    begin = time.perf_counter()
    result = triton().infer(model, tensors, client_timeout=SECONDS)
    return read_outputs(result), time.perf_counter() - begin


def post(message_id: str, url: str, body: str) -> None:
    """Send a signed webhook; raise urllib3's HTTPError unless the receiver takes it."""
    headers = make_headers(message_id, body)
    response = receivers().request("POST", url, body=body.encode(), headers=headers, redirect=False)
    if not 200 <= response.status < 300:
        raise urllib3.exceptions.HTTPError(f"the receiver answered {response.status}")
