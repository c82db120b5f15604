"""A client of the API.

It decodes every response strictly, so each test also checks the contract's shapes.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal, TypeVar

import httpx
import msgspec

from tests.support.api.api_shapes import (
    AttemptFailure,
    DeliveryStatus,
    Secret,
    Status,
    Strict,
    Subscription,
    WebhookDeliveries,
    WebhookDelivery,
)
from tests.support.waiting import eventually

Inputs = Mapping[str, object] | Sequence[object]
TERMINAL: tuple[Status, ...] = ("succeeded", "failed", "canceled", "expired")
ENDED: tuple[DeliveryStatus, ...] = ("succeeded", "exhausted", "canceled")
S = TypeVar("S", bound=msgspec.Struct)


class Output(Strict, frozen=True, omit_defaults=True):
    name: str
    datatype: str
    shape: list[int]
    data: list[object] | None = None
    response: int | None = None  # only of streaming models
    file: str | None = None  # only of large outputs, instead of data
    download_url: str | None = None
    size: int | None = None
    sha256: str | None = None
    location: str | None = None  # only of a job with an output.location, instead of data


class Failure(Strict, frozen=True):
    code: str
    message: str
    retryable: bool


class Metrics(Strict, frozen=True):
    queue_ms: int | None
    inference_ms: int | None
    total_ms: int | None


class WaitingFor(Strict, frozen=True):
    code: Literal[
        "slot", "schedule", "backoff", "triton", "dispatcher", "paused", "probation", "same_job", "model_loading"
    ]
    detail: str
    job: str | None = None  # only with `same_job`


class Urls(Strict, frozen=True):
    self: str
    cancel: str
    events: str
    deliveries: str
    trace: str | None


class RunStep(Strict, frozen=True):
    status: Literal["waiting", "running", "succeeded", "failed", "canceled"]
    total: int | None
    done: int
    job: str | None


class Job(Strict, frozen=True):
    id: str
    status: Status
    model: str
    version: str | None
    priority: Literal["high", "normal", "low"]
    attempt: int
    max_attempts: int
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    outputs: list[Output] | None
    error: Failure | None
    queue_position: int | None
    waiting_for: WaitingFor | None
    webhook_status: Literal["none", "pending", "succeeded", "failed"] | None
    metadata: dict[str, object]
    trace_id: str
    metrics: Metrics
    urls: Urls
    outputs_omitted: Literal["in_lists", "too_large", "erased"] | None = None  # why they are null
    outputs_url: str | None = None  # replaces outputs in a list, and large outputs in a webhook
    request: dict[str, object] | None = None  # that the job was translated from
    request_omitted: Literal["too_large"] | None = None
    kind: Literal["pipeline"] | None = None  # only of a run, with its steps
    steps: dict[str, RunStep] | None = None
    parent: str | None = None  # only of a step's job
    step: str | None = None
    reused_from: str | None = None  # only of a job that took its result from another one

    def output(self, name: str) -> list[object]:
        """Return the data of the only output with this name."""
        (found,) = [output for output in self.outputs or [] if output.name == name]
        assert found.data is not None, f"it is in {found.file}"
        return found.data

    def file(self, name: str) -> Output:
        """Return the only output with this name, which is in a file."""
        (found,) = [output for output in self.outputs or [] if output.name == name]
        assert found.data is None
        return found


class Jobs(Strict, frozen=True):
    items: list[Job]
    next_cursor: str | None


class Attempt(Strict, frozen=True):
    """One run of a job. A `returned` attempt does not count."""

    attempt: int
    count: int
    status: str
    model: str
    worker: str
    started_at: datetime
    finished_at: datetime
    duration_ms: int
    error: AttemptFailure | None

    @property
    def error_code(self) -> str | None:
        return self.error.code if self.error else None


class Attempts(Strict, frozen=True):
    items: list[Attempt]
    next_cursor: str | None


class Api:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def submit(self, model: str, inputs: Inputs, **options: object) -> Job:
        """Submit a job and return it as accepted. `options` are more fields of the request."""
        return await self.post({"model": model, "inputs": inputs, **options})

    async def post(self, request: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Job:
        response = await self.http.post("/v1/jobs", json=request, headers=headers)
        job = read(response, 202, Job)
        assert response.headers["location"] == f"/v1/jobs/{job.id}"
        return job

    async def get(self, job_id: str) -> Job:
        return read(await self.http.get(f"/v1/jobs/{job_id}"), 200, Job)

    async def list_attempts(self, job_id: str) -> list[Attempt]:
        """Return the attempts that have ended, oldest first."""
        return read(await self.http.get(f"/v1/jobs/{job_id}/attempts"), 200, Attempts).items

    async def list_all_jobs(self, **query: str | int) -> list[Job]:
        """Return the jobs of all pages of the list."""
        page = read(await self.http.get("/v1/jobs", params=query), 200, Jobs)
        found = [*page.items]
        while page.next_cursor is not None:
            page = read(await self.http.get("/v1/jobs", params=query | {"cursor": page.next_cursor}), 200, Jobs)
            found += page.items
        return found

    async def wait(self, job_id: str, *statuses: Status, within: float = 45.0) -> Job:
        """Return the job once it has one of these statuses. The default is any terminal status."""

        async def poll() -> Job | None:
            job = await self.get(job_id)
            return job if job.status in (statuses or TERMINAL) else None

        return await eventually(poll, f"{job_id} is {' or '.join(statuses or TERMINAL)}", within)

    async def wait_for_webhooks(self, job_id: str) -> Job:
        """Return the job once none of its webhooks is pending."""

        async def poll() -> Job | None:
            job = await self.get(job_id)
            return job if job.webhook_status != "pending" else None

        return await eventually(poll, f"the webhooks of {job_id} are no longer pending")

    async def run(self, model: str, inputs: Inputs, **options: object) -> Job:
        """Submit a job and return it once it has ended."""
        return await self.wait((await self.submit(model, inputs, **options)).id)

    async def list_deliveries(self, path: str, **query: str | int) -> WebhookDeliveries:
        """Return a page of the deliveries of a job or a subscription, given its path."""
        return read(await self.http.get(f"{path}/deliveries", params=query), 200, WebhookDeliveries)

    async def list_all_deliveries(self, path: str, limit: int = 100) -> list[WebhookDelivery]:
        """Return the deliveries of all pages."""
        found: list[WebhookDelivery] = []
        page = await self.list_deliveries(path, limit=limit)
        while page.next_cursor is not None:
            assert len(page.items) == limit
            found += page.items
            page = await self.list_deliveries(path, limit=limit, cursor=page.next_cursor)
        assert len(page.items) <= limit
        return found + page.items

    async def wait_for_delivery(self, delivery_id: str, *statuses: DeliveryStatus) -> WebhookDelivery:
        """Return the delivery once it has one of these statuses. The default is any except `pending`."""

        async def poll() -> WebhookDelivery | None:
            found = read(await self.http.get(f"/v1/deliveries/{delivery_id}"), 200, WebhookDelivery)
            return found if found.status in (statuses or ENDED) else None

        return await eventually(poll, f"{delivery_id} is {' or '.join(statuses or ENDED)}")

    async def callback_secret(self) -> str:
        return read(await self.http.get("/v1/webhook-secret"), 200, Secret).secret

    @asynccontextmanager
    async def subscribed(self, url: str, **options: object) -> AsyncIterator[Subscription]:
        """Create a subscription, and delete it at the end."""
        response = await self.http.post("/v1/webhooks", json={"url": url, **options})
        subscription = read(response, 201, Subscription)
        try:
            yield subscription
        finally:
            deleted = await self.http.delete(f"/v1/webhooks/{subscription.id}")
            assert (deleted.status_code, deleted.content) == (204, b"")


def read(response: httpx.Response, status: int, kind: type[S]) -> S:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    return msgspec.json.decode(response.content, type=kind)
