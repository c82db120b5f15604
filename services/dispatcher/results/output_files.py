"""Writes large outputs of jobs to the object store.

The row of each file is committed before its object is written. The statement that ends the job makes the file ready.
Until then the row expires like that of an upload, and a sweeper deletes it with its object. So an attempt whose
dispatcher dies leaves nothing for long. One that ends in any other way gives its rows to the sweeper.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from uuid import UUID

from common.errors import StoreUnavailable, Unavailable
from common.job_states import Failure
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher import metrics
from services.dispatcher.failures import retry_policy
from services.dispatcher.results.object_puts import ObjectPuts
from services.dispatcher.results.result_writer import save_with_retry
from services.dispatcher.results.store import OutputsNotStored, ResultStore
from services.dispatcher.triton.tensors import OutputFile

STORE_SECONDS = 600.0  # for all outputs of one result, far below the lease of their rows
RETRY_SECONDS = 1.0  # between two tries while the store is away
PUTS = 4  # at a time
STORE_AWAY = f"the object store did not take the job's outputs within {STORE_SECONDS:g} s; ask your operator"
# It counts: otherwise a store that stays away would cost one inference after the other.
NOT_STORED = retry_policy.Attempted(Failure("store_unavailable", STORE_AWAY, True))

log = Log("outputs")


class OutputFiles:
    """Writes outputs to the object store. While it is away, results wait: at most two for each slot."""

    def __init__(self, rows: ResultStore, objects: ObjectStore) -> None:
        self._rows = rows
        self._objects = objects
        self._puts = ObjectPuts(PUTS)
        self._outage = Outage()
        self._drops: set[asyncio.Task[None]] = set()

    async def save(self, tenant_id: UUID, files: Sequence[OutputFile]) -> None:
        """Write the files that are not written yet, and drop their data. A cancel ends the tries.

        Raises NotStored, or OutputsNotStored if the store does not take them in time. No file is kept then.
        """
        waiting = [file for file in files if not file.is_stored]
        if not waiting:
            return
        size = sum(file.size for file in waiting)
        metrics.output_bytes.inc(size)
        saved = False
        try:
            add = partial(self._rows.add_files, tenant_id)
            await save_with_retry(add, add, waiting)
            async with asyncio.timeout(STORE_SECONDS):
                for file in waiting:
                    await self._save(tenant_id, file)
            saved = True
        except TimeoutError as error:
            raise OutputsNotStored(NOT_STORED) from error
        finally:
            metrics.output_bytes.dec(size)
            if not saved:
                self.drop(files)

    def drop(self, files: Sequence[OutputFile]) -> None:
        """Let a sweeper delete those of the files that no job got: they count against the tenant's quota.

        This does not wait. If the database is away, the files wait for their own end.
        """
        if files:
            drop = asyncio.create_task(self._drop([file.id for file in files]))
            self._drops.add(drop)
            drop.add_done_callback(self._drops.discard)

    async def _drop(self, files: Sequence[UUID]) -> None:
        with suppress(Unavailable):
            await self._rows.drop_files(files)

    async def _save(self, tenant_id: UUID, file: OutputFile) -> None:
        while True:
            try:
                await self._puts.put(tenant_id, self._objects, file_key(tenant_id, file.id), file)
            except StoreUnavailable as error:
                if self._outage.begin():
                    log.warning("outputs.store_unavailable", error=error)
            else:
                self._outage.end()
                return
            await asyncio.sleep(RETRY_SECONDS)
