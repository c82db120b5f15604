"""Batches: many jobs in one call."""

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

from charonia._async.blocking import sleep
from charonia._async.planner import encode_item
from charonia._async.resources import AsyncModels
from charonia._async.transport import AsyncTransport
from charonia.calls import LINES, MAX_WAIT, Call, Deadline, decode, get, submit
from charonia.errors import ConnectionFailed
from charonia.inputs import EncodedItem, encode_body
from charonia.model_schemas import (
    ModelInfo,
)
from charonia.paths import make_path
from charonia.requests import DEFAULT_WAIT, Options, Webhook, make_fields
from charonia.retry import choose_delay
from charonia.schemas import (
    BatchAccepted,
    BatchData,
    BatchLine,
    Priority,
)


class AsyncBatches:
    """Batches of up to 10,000 jobs. `map` uses them, and is easier."""

    def __init__(self, transport: AsyncTransport, models: AsyncModels, max_body: int) -> None:
        self._transport = transport
        self._models = models
        self._max_body = max_body

    async def create(
        self,
        model: str,
        items: Iterable[Any],
        /,
        *,
        custom_ids: Sequence[str] | None = None,
        priority: Priority | None = None,
        webhook: str | Webhook | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: Options | None = None,
        idempotency_key: str | None = None,
    ) -> BatchAccepted:
        """Submit a job for each item, and return the batch with the items that were refused.

        An item is a dictionary of inputs, the value of the model's only input, or what `encode` returned.
        `custom_ids` names the items. The same `idempotency_key` and items give the same batch for 24 hours. Raise
        InvalidInput for an item that does not fit the model; then nothing is submitted.
        """
        found: ModelInfo | None = None
        fields = make_fields(model, priority, webhook, metadata, options)
        lines = [encode_body({"defaults": fields}, self._max_body)]
        for index, item in enumerate(items):
            if isinstance(item, EncodedItem):
                lines.append(item.line)
                continue
            found = found or await self._models.get(model)
            custom_id = None if custom_ids is None else custom_ids[index]
            lines.append(await encode_item(found, item, self._max_body, custom_id))
        call = submit("/v1/batches", b"\n".join(lines), idempotency_key, LINES)
        return await self._transport.call(call, BatchAccepted)

    async def encode(self, model: str, item: Any, *, custom_id: str | None = None) -> EncodedItem:
        """Return an item in the form that `create` sends, to find out before whether it fits. Raise InvalidInput."""
        found, _ = await self._models._recall(model)
        return EncodedItem(await encode_item(found, item, self._max_body, custom_id))

    async def get(self, batch_id: str, *, wait: float = 0.0) -> BatchData:
        """Return a batch, with its jobs by status. Raise NotFound.

        With `wait`, return once all its jobs have ended, at the latest after so many seconds (60 at most).
        """
        return await self._transport.call(get(make_path("batches", batch_id), wait=wait), BatchData)

    async def wait(self, batch_id: str, timeout: float = DEFAULT_WAIT) -> BatchData:
        """Return a batch once all its jobs have ended. Raise DeadlineExceeded after `timeout` seconds."""
        deadline = Deadline(timeout)
        while True:
            seconds = min(MAX_WAIT, deadline.left)
            batch = await self.get(batch_id, wait=seconds)
            if batch.finished_at is not None and batch.ended == batch.total:
                return batch
            deadline.check(f"the end of {batch_id}")

    async def cancel(self, batch_id: str) -> BatchData:
        """Cancel every job of a batch that has not ended, and return the batch. The jobs end one after another.

        Raise NotFound, and Conflict if the batch is completed.
        """
        return await self._transport.call(Call("POST", make_path("batches", batch_id, "/cancel")), BatchData)

    async def results(self, batch_id: str, *, start: int = 0, partial: bool = False) -> AsyncGenerator[BatchLine, None]:
        """Yield the line of each item, in the order submitted, once all jobs have ended. Raise Conflict before.

        With `partial`, yield all lines as they are now, also of jobs that wait or run. `start` is the index of the
        first line. A broken connection is opened again, and no line is lost or repeated.
        """
        total = (await self.get(batch_id)).total
        last_line_at = time.monotonic()
        while start < total:
            call = get(make_path("batches", batch_id, "/results"), {"from": start, "partial": partial or None})
            async for text in self._transport.read_lines(call):
                line = decode(text, BatchLine)
                start, last_line_at = line.index + 1, time.monotonic()
                yield line
            if start < total:
                if time.monotonic() - last_line_at > self._transport.timeout:
                    raise ConnectionFailed(f"the results of {batch_id} break off at item {start}; read them again")
                await sleep(choose_delay(1, None))
