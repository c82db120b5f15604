"""Puts large inline inputs of jobs into the object store, before the jobs are added."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import msgspec
from opentelemetry.trace import SpanKind

from common import ids
from common.errors import CharoniaError, StoreFull, StoreUnavailable
from common.fair_semaphore import FairSemaphore
from common.jobs.input_files import drop_large_inputs
from common.jobs.new_job import LargeInput, NewJob
from common.object_store.keys import file_key
from common.object_store.pauses import Pauses
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.settings import INLINE_SIZE
from common.telemetry import tracing
from common.telemetry.logs import Log
from services.gateway.jobs.inputs.store import InputStore
from services.gateway.jobs.inputs.stored_limit import StoredLimit

PUT_SECONDS = 30.0  # for all inputs of a request, and in addition:
MIN_RATE = 1024 * 1024  # bytes a second
MAX_PUTS = 8  # at a time; each holds up to 28 MiB beside the input itself
MAX_PUTS_OF_TENANT = 3
SPARE_SECONDS = 300.0  # for the statements that add the jobs

log = Log("files")


class LargeInputWriter:
    """Stores inputs. While the store is away, it refuses them at once."""

    def __init__(
        self,
        database: Database,
        store: InputStore,
        objects: ObjectStore,
        limit: StoredLimit,
        max_inline: int = INLINE_SIZE,
        pauses: Pauses | None = None,
    ) -> None:
        """`max_inline` are the bytes of a job's inputs that stay in its row."""
        self.max_inline = max_inline
        self._database = database
        self._store = store
        self._objects = objects
        self._limit = limit
        self._pauses = pauses or Pauses()
        self._puts = FairSemaphore[UUID](MAX_PUTS, each=MAX_PUTS_OF_TENANT)

    @asynccontextmanager
    async def written(self, jobs: Sequence[NewJob]) -> AsyncIterator[list[NewJob]]:
        """Store the large inputs of a tenant's jobs, and yield the jobs, to be added in the block.

        If the block raises, a sweeper deletes the inputs of the jobs that were not added. Raises Problem (413, 429)
        beyond the tenant's limit, and Unavailable.
        """
        if not (inputs := [large for job in jobs for large in job.large_inputs]):
            yield list(jobs)
            return
        if self._pauses.left() > 0:
            raise StoreUnavailable("The object store did not answer just now.")
        tenant_id, size = jobs[0].tenant_id, sum(len(each.data) for each in inputs)
        await self._limit.admit(tenant_id, size)
        seconds = PUT_SECONDS + size / MIN_RATE
        try:
            await self._store.begin(
                tenant_id, inputs, seconds + SPARE_SECONDS
            )  # its answer may be lost, but not its rows
            stored = await self._put_all(tenant_id, inputs, seconds)
            yield [
                msgspec.structs.replace(job, large_inputs=[stored[large.id] for large in job.large_inputs])
                for job in jobs
            ]
        except BaseException:
            await asyncio.shield(self._drop(inputs))
            raise

    async def _put_all(self, tenant_id: UUID, inputs: Sequence[LargeInput], seconds: float) -> dict[UUID, LargeInput]:
        """Store inputs within `seconds`. Return each with its SHA-256 and without its data."""
        with tracing.start_span("write inputs", kind=SpanKind.CLIENT):
            try:
                async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                    puts = [group.create_task(self._put(tenant_id, each)) for each in inputs]
            except TimeoutError as error:  # the tenant may have waited for its own puts: that says little of the store
                raise StoreUnavailable(f"The object store did not take the inputs within {seconds:g} s.") from error
            except ExceptionGroup as errors:
                first = errors.exceptions[0]
                if isinstance(first, StoreUnavailable) and not isinstance(first, StoreFull):  # others' may still fit
                    self._pauses.note_failure()
                raise first from errors
        self._pauses.note_success()
        return {put.result().id: put.result() for put in puts}

    async def _put(self, tenant_id: UUID, large: LargeInput) -> LargeInput:
        async with self._puts.acquire(tenant_id):
            stored = await self._objects.put(file_key(tenant_id, large.id), read(large.data))
        return LargeInput(large.id, b"", stored.sha256)

    async def _drop(self, inputs: Sequence[LargeInput]) -> None:
        try:
            await drop_large_inputs(self._database, [each.id for each in inputs])
        except CharoniaError as error:  # a sweeper finds them once their time is over
            log.warning("file.upload_left", file_id=ids.encode(ids.Kind.FILE, inputs[0].id), error=error)


async def read(data: bytes) -> AsyncIterator[bytes]:
    yield data
