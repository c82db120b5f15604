"""The client: submit, run, stream and map."""

import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import msgspec

from charonia._async.batches import AsyncBatches
from charonia._async.feed import AsyncEvents
from charonia._async.files import AsyncFiles
from charonia._async.jobs import AsyncJob
from charonia._async.keys import AsyncKeys
from charonia._async.mapper import AsyncMapper
from charonia._async.output_files import download_outputs, is_too_large
from charonia._async.pages import list_pages
from charonia._async.pipelines import AsyncPipelines
from charonia._async.planner import AsyncPlanner
from charonia._async.resources import AsyncDeadLetters, AsyncJobs, AsyncModels, to_text
from charonia._async.transport import AsyncTransport
from charonia._async.webhooks import AsyncDeliveries, AsyncWebhooks
from charonia.admin_schemas import AuditEntry, HourStats, Stats, UsageData
from charonia.calls import (
    MAX_WAIT,
    NEVER,
    Call,
    Deadline,
    add_headers,
    check_key,
    check_timeout,
    choose_patience,
    get,
    submit,
)
from charonia.errors import ConfigurationError, Forbidden, InvalidInput, InvalidRequest, KnownJob
from charonia.events import JobEvent, ProgressEvent, is_of
from charonia.inputs import MAX_BODY, encode_body, encode_inputs, encode_unchecked
from charonia.journal import open_journal
from charonia.journal_records import Beginning
from charonia.model_schemas import (
    ModelInfo,
)
from charonia.requests import DEFAULT_WAIT, Options, Webhook, make_fields
from charonia.results import Done, Part, Result
from charonia.schemas import (
    FieldProblem,
    JobData,
    Output,
    Priority,
)
from charonia.settings import describe_agent, find_connection
from charonia.version import VERSION

Inputs = Mapping[str, Any]


class AsyncCharonia:
    """A client of one gateway, with one key.

    Without arguments it takes CHARONIA_URL and CHARONIA_KEY, or the profile of the command line. `timeout` is the
    deadline of each call with its retries, in seconds; methods that wait for jobs have a `timeout` of their own.
    `max_body` is the largest request, in bytes. With `http`, the client uses this pool of connections, and does not
    close it.

    A client has a pool of connections: use one for all calls, and close it, or use it in a `with` statement.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        profile: str | None = None,
        timeout: float = 60.0,
        max_body: int = MAX_BODY,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        try:
            timeout = check_timeout(timeout)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        connection = find_connection(url, key, profile)
        headers = {"Authorization": f"Bearer {connection.key}", "User-Agent": describe_agent(VERSION)}
        self.url: str = connection.url
        self._max_body = max_body
        self._transport = AsyncTransport(connection.url, headers, timeout, http)
        self.models = AsyncModels(self._transport)
        self.pipelines = AsyncPipelines(self._transport, self.models)
        self.files = AsyncFiles(self._transport)
        self.jobs = AsyncJobs(self._transport)
        self.batches = AsyncBatches(self._transport, self.models, max_body)
        self.events = AsyncEvents(self._transport)
        self.dead_letters = AsyncDeadLetters(self._transport)
        self.webhooks = AsyncWebhooks(self._transport)
        self.deliveries = AsyncDeliveries(self._transport)
        self.keys = AsyncKeys(self._transport)

    async def __aenter__(self) -> "AsyncCharonia":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. Submitted jobs go on."""
        await self._transport.aclose()

    async def submit(
        self,
        model: str,
        /,
        inputs: Inputs | None = None,
        *,
        priority: Priority | None = None,
        webhook: str | Webhook | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: Options | None = None,
        idempotency_key: str | None = None,
        **named_inputs: Any,
    ) -> AsyncJob:
        """Submit a job, and return it at once. It runs whatever happens to this program.

        Inputs are given by name: a path or a file, a FileId or Url, bytes, str, numbers, lists or a NumPy array.
        `inputs` is for names that are parameters here, such as `priority`. `options` has the other fields of the API,
        such as `expires_in`. A retry never submits a second job. Give an `idempotency_key` if the program itself may
        submit the job again.

        Raise InvalidInput before anything is sent if the inputs do not fit the model, and APIError.
        """
        fields = make_fields(model, priority, webhook, metadata, options)
        call = await self._plan(fields, {**(inputs or {}), **named_inputs}, idempotency_key, Deadline(NEVER))
        return AsyncJob(self._transport, await self._submit(model, call))

    async def run(
        self,
        model: str,
        /,
        inputs: Inputs | None = None,
        *,
        timeout: float = DEFAULT_WAIT,
        priority: Priority | None = None,
        webhook: str | Webhook | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: Options | None = None,
        idempotency_key: str | None = None,
        **named_inputs: Any,
    ) -> Result:
        """Submit a job as `submit` does, and return its outputs. Those in files are downloaded.

        Raise JobFailed, JobCanceled or JobExpired, and DeadlineExceeded after `timeout` seconds. Then the job goes on.
        """
        deadline = Deadline(timeout)
        fields = make_fields(model, priority, webhook, metadata, options)
        call = await self._plan(fields, {**(inputs or {}), **named_inputs}, idempotency_key, deadline)
        if seconds := int(min(MAX_WAIT, deadline.left)):
            call = add_headers(call, {"Prefer": f"wait={seconds}"}, wait=seconds)
        patience = choose_patience(deadline, seconds, self._transport.timeout)
        job = AsyncJob(self._transport, await self._submit(model, call, patience))
        return await job.result(deadline.left)

    async def stream(
        self,
        model: str,
        /,
        inputs: Inputs | None = None,
        *,
        timeout: float = DEFAULT_WAIT,
        priority: Priority | None = None,
        webhook: str | Webhook | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: Options | None = None,
        idempotency_key: str | None = None,
        **named_inputs: Any,
    ) -> AsyncGenerator[Part, None]:
        """Submit a job as `submit` does, and yield the responses of a streaming model as they come.

        A broken connection is opened again, and no response is lost or repeated. Any other model has one response.
        One with over 1 GiB in files is not downloaded: its `tensors` name them.
        Raises as `run` does.
        """
        deadline = Deadline(timeout)
        fields = make_fields(model, priority, webhook, metadata, options)
        call = await self._plan(fields, {**(inputs or {}), **named_inputs}, idempotency_key, deadline)
        attempt, index, end, has_parts = 0, 0, None, False
        with KnownJob() as known:
            async for event in self._transport.follow(call, deadline, known):
                if not is_of(event, known.job_id):
                    continue
                if isinstance(event, ProgressEvent) and event.type == "job.started":
                    attempt, index = event.data.attempt or attempt + 1, 0
                elif isinstance(event, ProgressEvent) and event.type == "job.output":
                    outputs = await self._download(event.data.outputs, event.data.id, deadline)
                    yield Part(outputs, index, attempt)
                    index, has_parts = index + 1, True
                elif isinstance(event, JobEvent):
                    end = event.data
            if end is None and known.job_id is not None:  # it is erased, or ended in a state of a newer gateway
                end = (await self.jobs.get(known.job_id)).data
        if end is not None and (end.status != "succeeded" or not has_parts):
            job = AsyncJob(self._transport, end)
            result = await job.result(deadline.left, download=False)  # which raises if it failed
            if result:
                yield Part(await self._download(result.tensors, job.id, deadline), 0, attempt)

    async def map(
        self,
        model: str,
        items: Iterable[Any],
        /,
        *,
        concurrency: int = 256,
        ordered: bool = False,
        resume: Path | str | None = None,
        timeout: float = DEFAULT_WAIT,
        priority: Priority | None = None,
        webhook: str | Webhook | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: Options | None = None,
    ) -> AsyncGenerator[Done, None]:
        """Run the model on each item, and yield the items with their results as they end, or in order if `ordered`.

        An item is a dictionary of inputs, or the value of the model's only input. At most `concurrency` jobs are
        submitted at a time, so `items` may be endless. A failed item raises nothing; its `error` says why. Raise
        DeadlineExceeded if no item ends for `timeout` seconds. Submitted jobs go on if the loop is left.

        `resume` is a path for what was submitted. If the program is killed, call again with the same path and the same
        items: it yields all results from the beginning, and no item runs twice. The file is deleted after the last
        result. A request then holds the content of files, so an item is limited to it. Raise ResumeError for other
        items or arguments than before.
        """
        if not hasattr(concurrency, "__index__") or concurrency < 1:
            raise InvalidInput([FieldProblem("concurrency", f"must be a whole number from 1, not {concurrency!r}")])
        timeout = check_timeout(timeout)
        fields = make_fields(model, priority, webhook, metadata, options)
        found = await self.models.get(model)
        defaults = encode_body({"defaults": fields}, self._max_body)
        beginning = Beginning(model, self.url, msgspec.json.decode(defaults)["defaults"])
        with contextlib.nullcontext() if resume is None else open_journal(resume, beginning) as journal:
            planner = AsyncPlanner(found, items, self._max_body, self.files, journal)
            mapper = AsyncMapper(self._transport, self.files, planner, defaults, ordered=ordered)
            async for done in mapper.run(concurrency, timeout):
                yield done

    async def stats(self) -> Stats:
        """Return your jobs in numbers: what waits, runs and ended, by model and priority."""
        return await self._transport.call(get("/v1/stats"), Stats)

    async def stats_by_minute(self) -> HourStats:
        """Return how many of your jobs ended and failed in each minute of the last hour, waited and ran."""
        return await self._transport.call(get("/v1/stats/minutes"), HourStats)

    async def usage(
        self, *, since: date | None = None, until: date | None = None, model: str | None = None
    ) -> AsyncGenerator[UsageData, None]:
        """Yield what you used by day (UTC) and model, newest day first. `until` itself is left out."""
        days = {"since": to_text(since), "until": to_text(until)}
        async for usage in list_pages(self._transport, "/v1/usage", UsageData, model=model, **days):
            yield usage

    async def audit_log(
        self, *, action: str | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> AsyncGenerator[AuditEntry, None]:
        """Yield the changes to your keys, webhooks, secrets and limits, newest first."""
        times = {"since": to_text(since), "until": to_text(until)}
        async for entry in list_pages(self._transport, "/v1/audit-log", AuditEntry, action=action, **times):
            yield entry

    async def _download(self, outputs: list[Output], job_id: str, deadline: Deadline) -> list[Output]:
        """Return outputs with the contents of their files, or without those if they are too large."""
        return outputs if is_too_large(outputs) else await download_outputs(self.files, outputs, job_id, deadline)

    async def _plan(self, fields: dict[str, Any], inputs: Inputs, key: str | None, deadline: Deadline) -> Call:
        """Return the call that submits a job. Raise InvalidInput."""
        check_key(key)  # before anything is uploaded
        name: str = fields["model"]
        found = await self._recall(name, deadline)
        model = None if found is None else found[0]
        try:
            inputs = await self.files._prepare(inputs, model, self._max_body, deadline, inline=key is not None)
        except InvalidInput:
            self.models._forget(name)  # its limits may have changed
            raise
        encoded = encode_unchecked(inputs) if found is None else await self._encode(*found, inputs, deadline)
        return submit("/v1/jobs", encode_body({**fields, "inputs": encoded}, self._max_body), key)

    async def _recall(self, name: str, deadline: Deadline) -> tuple[ModelInfo, bool] | None:
        """Return the model, and whether it was read just now. None if the key may submit, but not read."""
        try:
            return await self.models._recall(name, deadline.limit(self._transport.timeout))
        except Forbidden:
            return None

    async def _encode(self, model: ModelInfo, is_new: bool, inputs: Inputs, deadline: Deadline) -> Sequence[Any]:
        """Return the inputs as the model's signature says. If it seems wrong, read the signature anew first."""
        try:
            return encode_inputs(model, inputs)
        except InvalidInput:
            if is_new:
                raise
        return encode_inputs(await self.models._read(model.name, deadline.limit(self._transport.timeout)), inputs)

    async def _submit(self, model: str, call: Call, timeout: float | None = None) -> JobData:
        try:
            return await self._transport.call(call, JobData, timeout)
        except InvalidRequest:
            self.models._forget(model)
            raise
