"""The client: submit, run, stream and map."""

import functools
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx

from charonia._async.batches import AsyncMapper
from charonia._async.blocking import run_blocking
from charonia._async.jobs import AsyncJob
from charonia._async.resources import AsyncDeadLetters, AsyncDeliveries, AsyncJobs, AsyncModels, AsyncWebhooks
from charonia._async.transport import AsyncTransport
from charonia.calls import MAX_WAIT, Call, Deadline, add_headers, submit
from charonia.errors import Forbidden, InvalidInput, InvalidRequest
from charonia.events import JOB_ENDS, JobEvent, StepEvent
from charonia.inputs import MAX_BODY, encode_body, encode_inputs, encode_unchecked, has_files, read_files
from charonia.requests import DEFAULT_WAIT, Options, Webhook, make_fields
from charonia.results import Done, Part, Result
from charonia.schemas import JobData, Priority
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
        connection = find_connection(url, key, profile)
        headers = {"Authorization": f"Bearer {connection.key}", "User-Agent": describe_agent(VERSION)}
        self.url = connection.url
        self._max_body = max_body
        self._transport = AsyncTransport(connection.url, headers, timeout, http)
        self.models = AsyncModels(self._transport)
        self.jobs = AsyncJobs(self._transport)
        self.dead_letters = AsyncDeadLetters(self._transport)
        self.webhooks = AsyncWebhooks(self._transport)
        self.deliveries = AsyncDeliveries(self._transport)

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

        Inputs are given by name: a path or a file, bytes, str, numbers, lists or a NumPy array. `inputs` is for names
        that are parameters here, such as `priority`. `options` has the other fields of the API, such as `expires_in`.
        A retry never submits a second job. Give an `idempotency_key` if the program itself may submit the job again.

        Raise InvalidInput before anything is sent if the inputs do not fit the model, and APIError.
        """
        fields = make_fields(model, priority, webhook, metadata, options)
        call = await self._plan(fields, {**(inputs or {}), **named_inputs}, idempotency_key)
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
        """Submit a job as `submit` does, and return its outputs.

        Raise JobFailed, JobCanceled or JobExpired, and DeadlineExceeded after `timeout` seconds. Then the job goes on.
        """
        deadline = Deadline(timeout)
        fields = make_fields(model, priority, webhook, metadata, options)
        call = await self._plan(fields, {**(inputs or {}), **named_inputs}, idempotency_key)
        if seconds := int(min(MAX_WAIT, deadline.left)):
            call = add_headers(call, {"Prefer": f"wait={seconds}"}, wait=seconds)
        job = AsyncJob(self._transport, await self._submit(model, call))
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
        Raises as `run` does.
        """
        deadline = Deadline(timeout)
        fields = make_fields(model, priority, webhook, metadata, options)
        call = await self._plan(fields, {**(inputs or {}), **named_inputs}, idempotency_key)
        attempt, index, end, has_parts = 0, 0, None, False
        async for event in self._transport.follow(call, deadline):
            if isinstance(event, StepEvent) and event.type == "job.started":
                attempt, index = event.data.attempt or attempt + 1, 0
            elif isinstance(event, StepEvent) and event.type == "job.output":
                yield Part(event.data.outputs, index, attempt)
                index, has_parts = index + 1, True
            elif isinstance(event, JobEvent) and event.type in JOB_ENDS:
                end = event.data
        if end is not None and (end.status != "succeeded" or not has_parts):
            result = await AsyncJob(self._transport, end).result()  # which raises if it failed
            if result:
                yield Part(result.tensors, 0, attempt)

    async def map(
        self,
        model: str,
        items: Iterable[Any],
        /,
        *,
        concurrency: int = 32,
        timeout: float = DEFAULT_WAIT,
        priority: Priority | None = None,
        webhook: str | Webhook | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: Options | None = None,
    ) -> AsyncGenerator[Done, None]:
        """Run the model on each item, and yield the items with their results as they end, not in order.

        An item is a dictionary of inputs, or the value of the model's only input. At most `concurrency` jobs are
        submitted at a time, so `items` may be endless. A failed item raises nothing; its `error` says why. Raise
        DeadlineExceeded if no item ends for `timeout` seconds. Submitted jobs go on if the loop is left.
        """
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        fields = make_fields(model, priority, webhook, metadata, options)
        mapper = AsyncMapper(self._transport, await self.models[model], fields, self._max_body)
        async for done in mapper.run(items, concurrency, timeout):
            yield done

    async def _plan(self, fields: dict[str, Any], inputs: Inputs, key: str | None) -> Call:
        """Return the call that submits a job. Raise InvalidInput."""
        if any(map(has_files, inputs.values())):
            inputs = await run_blocking(functools.partial(read_files, inputs, self._max_body))
        encoded = await self._encode(fields["model"], inputs)
        return submit("/v1/jobs", encode_body({**fields, "inputs": encoded}, self._max_body), key)

    async def _encode(self, name: str, inputs: Inputs) -> Sequence[Any] | Mapping[str, Any]:
        """Return the inputs as the model's signature says. If it seems wrong, read the signature anew first."""
        try:
            model, is_new = await self.models.recall(name)
        except Forbidden:  # the key may submit, but not read
            return encode_unchecked(inputs)
        try:
            return encode_inputs(model, inputs)
        except InvalidInput:
            if is_new:
                raise
        return encode_inputs(await self.models[name], inputs)

    async def _submit(self, model: str, call: Call) -> JobData:
        try:
            return await self._transport.call(call, JobData)
        except InvalidRequest:
            self.models.forget(model)
            raise
