"""Looks up the objects and folders in buckets that submits refer to."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar
from uuid import UUID

from common.errors import SettingsError, StoreDenied, StoreNotFound, StoreUnavailable
from common.locations.allowed import AllowedLocations, Use
from common.locations.buckets import Buckets
from common.locations.location import Location
from common.object_store.store import ObjectStore
from common.telemetry.logs import Log
from services.gateway.http.problems import LATER, Problem
from services.gateway.jobs.inputs.npy import HEAD_BYTES, MAGIC, describe_npy
from services.gateway.jobs.inputs.references import KnownFile

READS = 32  # headers of contents that one request reads at a time
HEADERS_SECONDS = 20.0  # for all of them: the client waits; and in addition:
SECONDS_EACH = 0.01
MAX_SECONDS = 120.0  # enough for a batch of 10,000, if the store answers within a third of a second
NOT_ALLOWED = (
    "it is not allowed for your tenant; an operator can allow it with "
    "`python -m services.gateway.commands.locations allow`"
)
OWN_STORE = "it is in Charonia's own store, which no tenant may use; use another bucket, or POST /v1/files"
MISSING = "there is no such object in the bucket, or no such bucket"
DENIED = "Charonia may not read it; let its AWS credentials read the bucket, which must be in the region of AWS_REGION"

log = Log("location")

K = TypeVar("K")
T = TypeVar("T")


class InputLocations:
    """The objects in buckets, as inputs of jobs."""

    def __init__(self, allowed: AllowedLocations, buckets: Buckets) -> None:
        self._allowed = allowed
        self._buckets = buckets

    async def describe(self, tenant_id: UUID, needed: Mapping[Location, bool]) -> dict[Location, KnownFile | str]:
        """Return each object, or why the tenant cannot use it. Raises Problem (503) for a bucket, and Unavailable.

        `needed`: each with whether it may be an .npy file.
        """
        if not needed:
            return {}
        allowed, reads = await self._allowed.find(tenant_id, needed.keys(), Use.READ), asyncio.Semaphore(READS)

        async def describe(location: Location) -> KnownFile | str:
            async with reads:
                return await self._describe_one(location, may_be_npy=needed[location])

        found = await gather_within(limit_seconds(len(allowed)), {each: describe(each) for each in allowed})
        refused = {each: OWN_STORE if self._allowed.is_own(each) else NOT_ALLOWED for each in needed}
        return refused | found

    async def find_writable(self, tenant_id: UUID, folders: Sequence[Location]) -> set[Location]:
        """Return those of the folders that the tenant may write to. Raises Unavailable."""
        return await self._allowed.find(tenant_id, folders, Use.WRITE) if folders else set()

    async def _describe_one(self, location: Location, *, may_be_npy: bool) -> KnownFile | str:
        try:
            store = self._buckets.open(location.bucket)
            size = (await store.head(location.key)).size
            return await describe_content(store, location.key, size, may_be_npy=may_be_npy)
        except StoreNotFound:
            return MISSING
        except StoreDenied:
            return DENIED
        except SettingsError as error:
            return f"Charonia's settings cannot open the bucket; ask an operator to change them: {error}"
        except StoreUnavailable as error:
            log.warning("location.unavailable", bucket=location.bucket, error=error)
            text = f"the bucket of {location} does not answer; try again later"
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER) from error


async def describe_content(store: ObjectStore, key: str, size: int, *, may_be_npy: bool) -> KnownFile:
    """Return what a submit needs to know of an object. Raises StoreNotFound, and Unavailable."""
    if not may_be_npy or size <= len(MAGIC):
        return KnownFile(size)
    reader = await store.read(key, 0, min(size, HEAD_BYTES))
    return KnownFile(size, describe_npy(b"".join([piece async for piece in reader.pieces])))


def limit_seconds(count: int) -> float:
    """Return how long a request may look up so many files or objects."""
    return min(HEADERS_SECONDS + count * SECONDS_EACH, MAX_SECONDS)


async def gather_within(seconds: float, work: Mapping[K, Coroutine[Any, Any, T]]) -> dict[K, T]:
    """Return the results. No work goes on after an error, a cancel or the deadline. Raises Problem (503)."""
    tasks: dict[K, asyncio.Task[T]] = {}
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            tasks |= {key: group.create_task(each) for key, each in work.items()}
    except TimeoutError as error:
        raise too_slow(seconds, sum(not task.cancelled() for task in tasks.values()), len(tasks)) from error
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return {key: task.result() for key, task in tasks.items()}


def too_slow(seconds: float, done: int, count: int) -> Problem:
    text = f"only {done} of {count} files and objects were looked up within {seconds:g} s; try again later"
    if done:
        text += f", and with at most {done} of them in a batch"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)
