"""A job: its state, its events and its result."""

from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

from charonia._async.transport import AsyncTransport
from charonia.calls import MAX_WAIT, Call, Deadline, T, get, post
from charonia.errors import BY_JOB_STATUS, CharoniaError, Conflict, DeadlineExceeded
from charonia.events import Event
from charonia.requests import DEFAULT_WAIT
from charonia.results import Result
from charonia.schemas import (
    AttemptData,
    DeliveryData,
    Failure,
    JobData,
    JobOutputs,
    Page,
    Priority,
    Status,
)

GRACE_SECONDS = 5.0  # for the answer of a wait to arrive


class AsyncJob:
    """A submitted job. `data` is its state as of the last call; `refresh` and `wait` renew it."""

    def __init__(self, transport: AsyncTransport, data: JobData) -> None:
        self._transport = transport
        self.data = data

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status}>"

    @property
    def id(self) -> str:
        return self.data.id

    @property
    def status(self) -> Status:
        return self.data.status

    @property
    def model(self) -> str:
        return self.data.model

    @property
    def priority(self) -> Priority:
        return self.data.priority

    @property
    def queue_position(self) -> int | None:
        """The estimated position in the queue, as of the last `refresh`; 1 is next."""
        return self.data.queue_position

    @property
    def error(self) -> Failure | None:
        """Why the job, or its latest attempt, failed."""
        return self.data.error

    @property
    def metadata(self) -> dict[str, Any]:
        return self.data.metadata

    @property
    def trace_id(self) -> str:
        return self.data.trace_id

    async def refresh(self) -> "AsyncJob":
        """Read the state anew, and return this job."""
        self.data = await self._transport.call(get(self._path()), JobData)
        return self

    async def wait(self, timeout: float = DEFAULT_WAIT) -> "AsyncJob":
        """Return this job once it has ended, in whatever state. Raise DeadlineExceeded after `timeout` seconds."""
        deadline = Deadline(timeout)
        while not self.data.has_ended:
            seconds = min(MAX_WAIT, deadline.left)
            if not seconds:
                raise DeadlineExceeded(
                    f"{self.id} is {self.status} after {timeout:g} s; it goes on. Wait again, or cancel it"
                )
            patience = max(GRACE_SECONDS, min(self._transport.timeout, deadline.left - seconds))
            self.data = await self._transport.call(get(self._path(), wait=seconds), JobData, patience)
        return self

    async def result(self, timeout: float = DEFAULT_WAIT) -> Result:
        """Return the outputs once the job has succeeded.

        Raise JobFailed, JobCanceled or JobExpired, and DeadlineExceeded after `timeout` seconds.
        """
        data = (await self.wait(timeout)).data
        if data.status != "succeeded":
            raise BY_JOB_STATUS[data.status](data)
        if data.outputs is None and data.outputs_omitted == "erased":
            raise CharoniaError(f"the outputs of {self.id} were erased; submit the job again")
        if data.outputs is not None:
            return Result(data, data.outputs)
        found = await self._transport.call(get(self._path("/outputs")), JobOutputs)
        return Result(data, found.outputs)

    async def events(self, *, after: str = "", timeout: float = DEFAULT_WAIT) -> AsyncGenerator[Event, None]:
        """Yield the events of the job as they come, from its beginning, until it has ended.

        A broken connection is opened again, and no event is lost or repeated. `after` is the id of an event to go on
        after. Raise DeadlineExceeded after `timeout` seconds.
        """
        async for event in self._transport.follow(get(self._path("/events")), Deadline(timeout), after):
            yield event

    async def cancel(self) -> "AsyncJob":
        """Cancel the job, and return it. A running job is `canceling` until its model has stopped.

        Raise Conflict if it has ended in another way.
        """
        call = Call("POST", self._path("/cancel"))
        try:
            self.data = await self._transport.call(call, JobData)
        except Conflict:
            if (await self.refresh()).status not in ("canceling", "canceled"):  # it was not a try of this call
                raise
        return self

    async def retry(self, *, target_model: str | None = None) -> "AsyncJob":
        """Queue the failed, canceled or expired job again, on its model or `target_model`, and return it."""
        body = {} if target_model is None else {"target_model": target_model}
        self.data = await self._transport.call(post(self._path("/retry"), body), JobData)
        return self

    async def erase(self) -> None:
        """Delete the inputs, outputs, metadata and webhooks of the ended job. Its status and times remain."""
        await self._transport.send(Call("DELETE", self._path()))

    async def attempts(self) -> list[AttemptData]:
        """Return the ended attempts, oldest first."""
        return (await self._transport.call(get(self._path("/attempts")), Page[AttemptData])).items

    async def deliveries(self) -> list[DeliveryData]:
        """Return the latest webhooks of the job, newest first."""
        return (await self._transport.call(get(self._path("/deliveries")), Page[DeliveryData])).items

    def _path(self, suffix: str = "") -> str:
        return make_path(self.data.id, suffix)


def make_path(job_id: str, suffix: str = "") -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}{suffix}"


async def list_pages(
    transport: AsyncTransport, path: str, kind: type[T], **query: str | None
) -> AsyncGenerator[T, None]:
    """Yield the items of a list, page by page."""
    cursor: str | None = None
    while True:
        page: Page[T] = await transport.call(get(path, {**query, "cursor": cursor}), Page[kind])  # type: ignore[valid-type]
        for item in page.items:
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return
