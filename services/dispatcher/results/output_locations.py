"""Writes outputs of jobs to the buckets that their clients named.

Each attempt has a folder of its own there, so an attempt that lost its claim replaces nothing. Charonia deletes none of
these objects once they are whole.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from common.errors import SettingsError, StoreDenied, StoreNotFound, Unavailable
from common.job_states import Failure
from common.locations.allowed import AllowedLocations, Use
from common.locations.buckets import Buckets
from common.locations.location import Location
from services.dispatcher import metrics
from services.dispatcher.failures import retry_policy
from services.dispatcher.results.object_puts import ObjectPuts
from services.dispatcher.results.store import OutputsNotStored
from services.dispatcher.triton.tensors import OutputFile

BUCKET_SECONDS = 120.0  # for all outputs of one result, which meanwhile may hold a slot
RETRY_SECONDS = 1.0  # between two tries while the bucket is away
PUTS = 8  # at a time; a bucket that hangs holds one for a while


class OutputLocations:
    """Writes outputs to buckets of tenants. One that is away delays only the jobs that want to write there."""

    def __init__(self, allowed: AllowedLocations, buckets: Buckets) -> None:
        self._allowed = allowed
        self._buckets = buckets
        self._puts = ObjectPuts(PUTS)

    def close(self) -> None:
        self._buckets.close()

    async def save(self, tenant_id: UUID, folder: Location, files: Sequence[OutputFile]) -> None:
        """Write the outputs that are not written yet below a folder, and drop their data. A cancel ends the tries.

        Raises OutputsNotStored if the tenant may not write there any more, or the bucket does not take them in time.
        """
        waiting = [file for file in files if not file.is_stored]
        size = sum(file.size for file in waiting)
        metrics.output_bytes.inc(size)
        try:
            async with asyncio.timeout(BUCKET_SECONDS):
                while waiting:
                    try:
                        await self._check(tenant_id, folder)
                        for file in waiting:
                            await self._put(tenant_id, file)
                    except (StoreDenied, StoreNotFound, SettingsError) as error:
                        raise refused(f"Charonia may not write to {folder}") from error
                    except Unavailable:
                        await asyncio.sleep(RETRY_SECONDS)
                    waiting = [file for file in waiting if not file.is_stored]
        except TimeoutError as error:
            raise away(folder) from error
        finally:
            metrics.output_bytes.dec(size)

    async def _check(self, tenant_id: UUID, folder: Location) -> None:
        if not await self._allowed.find(tenant_id, [folder], Use.WRITE):
            raise refused(f"the tenant may not write to {folder} any more")

    async def _put(self, tenant_id: UUID, file: OutputFile) -> None:
        assert file.location is not None, "all outputs of the job have one"
        objects = self._buckets.open(file.location.bucket)
        await self._puts.put(tenant_id, objects, file.location.key, file)


def refused(reason: str) -> OutputsNotStored:
    text = f"{reason}; ask your operator, and retry the job"
    return OutputsNotStored(retry_policy.Attempted(Failure("output_location_refused", text, False)))


def away(folder: Location) -> OutputsNotStored:
    """It counts: otherwise a bucket that stays away would cost one inference after the other."""
    text = f"the bucket of {folder} did not take the job's outputs within {BUCKET_SECONDS:g} s; check that it answers"
    return OutputsNotStored(retry_policy.Attempted(Failure("output_location_failed", text, True)))
