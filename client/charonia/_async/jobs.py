"""A job: its state, its events and its result."""

import functools
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from charonia._async.blocking import run_blocking
from charonia._async.files import AsyncFiles
from charonia._async.output_files import download_outputs
from charonia._async.pages import read_pages
from charonia._async.transport import AsyncTransport
from charonia.admin_schemas import DeliveryData, Trace
from charonia.calls import MAX_WAIT, Call, Deadline, choose_patience, extend, get, post
from charonia.contents import encode_content
from charonia.errors import (
    CharoniaError,
    Conflict,
    DeadlineExceeded,
    KnownJob,
    known_outputs,
    make_job_error,
)
from charonia.events import Event
from charonia.paths import make_path
from charonia.requests import DEFAULT_WAIT
from charonia.results import Result
from charonia.schemas import (
    AttemptData,
    Failure,
    Input,
    JobData,
    JobInputs,
    JobOutputs,
    Output,
    RunStep,
    WaitingFor,
)
from charonia.sources import OnProgress


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
    def status(self) -> str:
        return self.data.status

    @property
    def model(self) -> str:
        return self.data.model

    @property
    def priority(self) -> str:
        return self.data.priority

    @property
    def queue_position(self) -> int | None:
        """The estimated position in the queue, as of the last `refresh`; 1 is next."""
        return self.data.queue_position

    @property
    def waiting_for(self) -> WaitingFor | None:
        """Why the queued job does not run yet, as of the last `refresh`."""
        return self.data.waiting_for

    @property
    def error(self) -> Failure | None:
        """Why the job, or its latest attempt, failed."""
        return self.data.error

    @property
    def metadata(self) -> dict[str, Any]:
        return self.data.metadata

    @property
    def steps(self) -> Mapping[str, RunStep]:
        """The steps of a run by name, as of the last `refresh` or `wait`. Empty for other jobs."""
        return self.data.steps or {}

    @property
    def trace_id(self) -> str:
        return self.data.trace_id

    async def refresh(self) -> "AsyncJob":
        """Read the state anew, and return this job."""
        self.data = await self._transport.call(get(self._path()), JobData)
        return self

    async def wait(self, timeout: float = DEFAULT_WAIT) -> "AsyncJob":
        """Return this job once it has ended, in whatever state. Raise DeadlineExceeded after `timeout` seconds."""
        await self._wait(Deadline(timeout))
        return self

    async def _wait(self, deadline: Deadline) -> None:
        with KnownJob(self.id):
            while not self.data.has_ended:
                seconds = min(MAX_WAIT, deadline.left)
                if not seconds:
                    raise DeadlineExceeded(
                        f"{self.id} is {self.status} after {deadline.seconds:g} s; it goes on. Wait again, or cancel it"
                    )
                patience = choose_patience(deadline, seconds, self._transport.timeout)
                self.data = await self._transport.call(get(self._path(), wait=seconds), JobData, patience)

    async def result(self, timeout: float = DEFAULT_WAIT, *, download: bool = True) -> Result:
        """Return the outputs once the job has succeeded, with the contents of those in files if `download`.

        Raise JobFailed, JobCanceled or JobExpired, and DeadlineExceeded after `timeout` seconds.
        """
        deadline = Deadline(timeout)
        data, outputs = await self._find_outputs(deadline)
        if download:
            outputs = await download_outputs(AsyncFiles(self._transport), outputs, self.id, deadline)
        return Result(data, outputs)

    async def save_output(
        self,
        name: str,
        path: Path | str,
        *,
        timeout: float = DEFAULT_WAIT,
        on_progress: OnProgress | None = None,
    ) -> Path:
        """Write an output to a path once the job has succeeded, and return the path. A large one is not held whole.

        Numbers are written raw, row-major and little-endian. One BYTES element is written as it is; of several, each
        follows its length in 4 bytes. Raise KeyError for an unknown name, ValueError for one with several responses,
        and DeadlineExceeded after `timeout` seconds.
        """
        deadline = Deadline(timeout)
        _, outputs = await self._find_outputs(deadline)
        found = [each for each in outputs if each.name == name]
        if not found:
            raise KeyError(f"no output {name!r}; there are {', '.join(repr(each.name) for each in outputs) or 'none'}")
        if len(found) > 1:
            raise ValueError(
                f"output {name!r} has {len(found)} responses; "
                "read `result(download=False).tensors`, and save the file of each with `client.files.save`"
            )
        (output,), target = found, Path(path)
        if output.file is not None:
            with known_outputs(self.id):
                left, files = extend(deadline).left, AsyncFiles(self._transport)
                return await files.save(output.file, target, timeout=left, on_progress=on_progress)
        await run_blocking(functools.partial(target.write_bytes, encode_content(output)))
        return target

    async def _find_outputs(self, deadline: Deadline) -> tuple[JobData, list[Output]]:
        await self._wait(deadline)
        data = self.data
        if data.status != "succeeded":
            raise make_job_error(data)
        outputs = data.outputs
        if outputs is None and data.outputs_omitted != "erased":
            with known_outputs(self.id):
                patience = choose_patience(deadline, 0.0, self._transport.timeout)
                outputs = (await self._transport.call(get(self._path("/outputs")), JobOutputs, patience)).outputs
        if outputs is None:
            with KnownJob(self.id):
                raise CharoniaError(f"the outputs of {self.id} were erased; submit the job again")
        return data, outputs

    async def events(self, *, after: str | None = None, timeout: float = DEFAULT_WAIT) -> AsyncGenerator[Event, None]:
        """Yield the events of the job as they come, from its beginning, until it has ended.

        A broken connection is opened again, and no event is lost or repeated. `after` is the `position` of an event to
        go on after. A run of a pipeline also has a StepEvent when a step begins, and when a job of a step ends. A newer
        gateway may send events of other jobs too: `event.data.id` tells. Raise DeadlineExceeded after `timeout`
        seconds.
        """
        call = get(self._path("/events"))
        with KnownJob(self.id) as known:
            async for event in self._transport.follow(call, Deadline(timeout), known, after or ""):
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
        await self._transport.send(Call("POST", self._path("/erase")))

    async def inputs(self) -> list[Input]:
        """Return the inputs as the job was submitted. Raise CharoniaError if they were erased."""
        found = await self._transport.call(get(self._path("/inputs")), JobInputs)
        if found.inputs is None:
            with KnownJob(self.id):
                raise CharoniaError(f"the inputs of {self.id} were erased; submit a new job")
        return found.inputs

    async def attempts(self) -> list[AttemptData]:
        """Return the ended attempts, oldest first."""
        return await read_pages(self._transport, self._path("/attempts"), AttemptData)

    async def deliveries(self) -> list[DeliveryData]:
        """Return the webhooks of the job, newest first."""
        return await read_pages(self._transport, self._path("/deliveries"), DeliveryData)

    async def trace(self) -> Trace:
        """Return what happened to the job when: each wait, each attempt, each delivery."""
        return await self._transport.call(get(self._path("/trace")), Trace)

    def _path(self, suffix: str = "") -> str:
        return make_path("jobs", self.data.id, suffix)
