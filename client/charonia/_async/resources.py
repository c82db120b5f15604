"""The collections of a client: models, jobs and dead letters."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from charonia._async.jobs import AsyncJob
from charonia._async.pages import list_pages
from charonia._async.transport import AsyncTransport
from charonia.calls import get, post
from charonia.model_schemas import (
    ModelInfo,
)
from charonia.paths import make_path
from charonia.schemas import JobData, Replayed, Status


class AsyncModels:
    """The models and pipelines that the key may run."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._known: dict[str, ModelInfo] = {}

    async def get(self, name: str) -> ModelInfo:
        """Return a model as it is now. Raise NotFound."""
        return await self._read(name)

    async def _read(self, name: str, timeout: float | None = None) -> ModelInfo:
        """Return a model as it is now, within `timeout` seconds, by default those of the client."""
        call = get(make_path("models", name))
        self._known[name] = await self._transport.call(call, ModelInfo, timeout)
        return self._known[name]

    async def list(self) -> AsyncGenerator[ModelInfo, None]:
        """Yield the models by name."""
        async for model in list_pages(self._transport, "/v1/models", ModelInfo):
            yield model

    async def _recall(self, name: str, timeout: float | None = None) -> tuple[ModelInfo, bool]:
        """Return a model as it was when it was last read, and whether that was just now."""
        if (known := self._known.get(name)) is not None:
            return known, False
        return await self._read(name, timeout), True

    def _forget(self, name: str) -> None:
        """Read the model anew when it is needed next: its signature may have changed."""
        self._known.pop(name, None)


class AsyncJobs:
    """The tenant's jobs."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def get(self, job_id: str) -> AsyncJob:
        """Return a job. Raise NotFound."""
        return AsyncJob(self._transport, await self._transport.call(get(make_path("jobs", job_id)), JobData))

    async def list(
        self,
        *,
        status: Status | None = None,
        model: str | None = None,
        batch: str | None = None,
        parent: str | None = None,
        step: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
    ) -> AsyncGenerator[JobData, None]:
        """Yield jobs without their outputs, newest first.

        Those of the steps of a run are listed only with its id as `parent`, by step, and in the order of its elements.
        `step` is the name of one step.
        """
        query = {"status": status, "model": model, "batch": batch, "parent": parent, "step": step}
        times = {"created_after": to_text(created_after), "created_before": to_text(created_before)}
        async for job in list_pages(self._transport, "/v1/jobs", JobData, **query, **times):
            yield job


class AsyncDeadLetters:
    """Jobs that failed for good."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def list(
        self,
        *,
        model: str | None = None,
        error: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
    ) -> AsyncGenerator[JobData, None]:
        """Yield dead letters without their outputs, newest first. `error` is an error code."""
        times = {"created_after": to_text(created_after), "created_before": to_text(created_before)}
        async for job in list_pages(self._transport, "/v1/dead-letters", JobData, model=model, error=error, **times):
            yield job

    async def replay(
        self,
        *,
        ids: Sequence[str] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 -- the name in the API
        target_model: str | None = None,
        limit: int | None = None,
    ) -> Replayed:
        """Queue dead letters again: those with these ids, or the newest that match a filter such as {"model": "ocr"}.

        They run on their own models, or on `target_model`.
        """
        body = {"ids": ids, "filter": filter, "target_model": target_model, "limit": limit}
        given = {name: value for name, value in body.items() if value is not None}
        return await self._transport.call(post("/v1/dead-letters/replay", given), Replayed)


def to_text(time: date | None) -> str | None:
    return None if time is None else time.isoformat()
