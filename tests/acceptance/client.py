"""A client of the API: the contract's shapes, read strictly, so that every answer in these tests is checked."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal, TypeVar

import httpx
import msgspec

from tests.acceptance.shapes import (
    DeliveryStatus,
    Secret,
    Status,
    Strict,
    Subscription,
    WebhookDeliveries,
    WebhookDelivery,
)
from tests.acceptance.waiting import eventually

Inputs = Mapping[str, object] | Sequence[object]
TERMINAL: tuple[Status, ...] = ("succeeded", "failed", "canceled", "expired")
ENDED: tuple[DeliveryStatus, ...] = ("succeeded", "exhausted", "canceled")
S = TypeVar("S", bound=msgspec.Struct)


class Output(Strict, frozen=True):
    name: str
    datatype: str
    shape: list[int]
    data: list[object]
    response: int | None = None  # of streaming models only


class Failure(Strict, frozen=True):
    code: str
    message: str
    retryable: bool


class Metrics(Strict, frozen=True):
    queue_ms: int | None
    inference_ms: int | None
    total_ms: int | None


class Urls(Strict, frozen=True):
    self: str
    cancel: str
    events: str
    deliveries: str
    trace: str | None


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
    webhook_status: Literal["none", "pending", "succeeded", "failed"]
    metadata: dict[str, object]
    trace_id: str
    metrics: Metrics
    urls: Urls
    outputs_url: str | None = None  # in a webhook, instead of large outputs

    def output(self, name: str) -> list[object]:
        """The data of the one output of that name."""
        (found,) = [output for output in self.outputs or [] if output.name == name]
        return found.data


class Jobs(Strict, frozen=True):
    items: list[Job]
    next_cursor: str | None


class Attempt(Strict, frozen=True):
    """One run of a job; `returned` ones do not count."""

    attempt: int
    status: str
    model: str
    worker: str
    started_at: datetime
    finished_at: datetime
    duration_ms: int
    error_code: str | None
    error_message: str | None


class Attempts(Strict, frozen=True):
    items: list[Attempt]


class Api:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def submit(self, model: str, inputs: Inputs, **options: object) -> Job:
        """The job as accepted; `options` are further fields of the request."""
        return await self.post({"model": model, "inputs": inputs, **options})

    async def post(self, request: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Job:
        answer = await self.http.post("/v1/jobs", json=request, headers=headers)
        job = read(answer, 202, Job)
        assert answer.headers["location"] == f"/v1/jobs/{job.id}"
        return job

    async def get(self, job_id: str) -> Job:
        return read(await self.http.get(f"/v1/jobs/{job_id}"), 200, Job)

    async def list_attempts(self, job_id: str) -> list[Attempt]:
        """Those that have ended, oldest first."""
        return read(await self.http.get(f"/v1/jobs/{job_id}/attempts"), 200, Attempts).items

    async def wait(self, job_id: str, *statuses: Status, within: float = 20.0) -> Job:
        """The job, once it is in one of these states, or in a terminal one where none is named."""

        async def look() -> Job | None:
            job = await self.get(job_id)
            return job if job.status in (statuses or TERMINAL) else None

        return await eventually(look, f"{job_id} is {' or '.join(statuses or TERMINAL)}", within)

    async def wait_for_webhooks(self, job_id: str) -> Job:
        """The job, once its webhooks are no longer pending."""

        async def look() -> Job | None:
            job = await self.get(job_id)
            return job if job.webhook_status != "pending" else None

        return await eventually(look, f"the webhooks of {job_id} are settled")

    async def run(self, model: str, inputs: Inputs, **options: object) -> Job:
        """The job at its end."""
        return await self.wait((await self.submit(model, inputs, **options)).id)

    async def list_deliveries(self, path: str, **query: str | int) -> WebhookDeliveries:
        """Of a job or a subscription, by its path."""
        return read(await self.http.get(f"{path}/deliveries", params=query), 200, WebhookDeliveries)

    async def list_all_deliveries(self, path: str, limit: int = 100) -> list[WebhookDelivery]:
        """All of them, a page at a time."""
        found: list[WebhookDelivery] = []
        page = await self.list_deliveries(path, limit=limit)
        while page.next_cursor is not None:
            assert len(page.items) == limit
            found += page.items
            page = await self.list_deliveries(path, limit=limit, cursor=page.next_cursor)
        assert len(page.items) <= limit
        return found + page.items

    async def wait_for_delivery(self, delivery_id: str, *statuses: DeliveryStatus) -> WebhookDelivery:
        """The delivery, once it is in one of these states, or no longer pending where none is named."""

        async def look() -> WebhookDelivery | None:
            found = read(await self.http.get(f"/v1/deliveries/{delivery_id}"), 200, WebhookDelivery)
            return found if found.status in (statuses or ENDED) else None

        return await eventually(look, f"{delivery_id} is {' or '.join(statuses or ENDED)}")

    async def callback_secret(self) -> str:
        return read(await self.http.get("/v1/webhook-secret"), 200, Secret).secret

    @asynccontextmanager
    async def subscribed(self, url: str, **options: object) -> AsyncIterator[Subscription]:
        """A subscription, deleted at the end."""
        answer = await self.http.post("/v1/webhooks", json={"url": url, **options})
        subscription = read(answer, 201, Subscription)
        try:
            yield subscription
        finally:
            gone = await self.http.delete(f"/v1/webhooks/{subscription.id}")
            assert (gone.status_code, gone.content) == (204, b"")


def read(answer: httpx.Response, status: int, kind: type[S]) -> S:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    return msgspec.json.decode(answer.content, type=kind)
