"""Reads inputs from buckets that operators let tenants read."""

import io
from collections.abc import Sequence
from uuid import UUID

from common.errors import (
    SettingsError,
    StoreDenied,
    StoreNotFound,
    StoreRangeInvalid,
    StoreUnavailable,
    Unavailable,
)
from common.job_states import Failure
from common.locations.allowed import AllowedLocations, Use
from common.locations.buckets import Buckets
from common.locations.location import Location
from common.tensors import ObjectContent, Tensor
from services.dispatcher.inputs.fetched import waits
from services.dispatcher.triton.errors import InferenceError


class BucketReader:
    """Reads objects of tenants. A bucket that is away fails the attempts that need it, and no others."""

    def __init__(self, allowed: AllowedLocations, buckets: Buckets) -> None:
        self._allowed = allowed
        self._buckets = buckets

    def close(self) -> None:
        self._buckets.close()

    async def check(self, tenant_id: UUID, inputs: Sequence[Tensor]) -> None:
        """Raise InferenceError if the tenant may not read an input any more."""
        wanted = {
            Location(each.data.bucket, each.data.key): each.name
            for each in inputs
            if isinstance(each.data, ObjectContent)
        }
        if not wanted:
            return
        try:
            allowed = await self._allowed.find(tenant_id, wanted.keys(), Use.READ)
        except Unavailable as error:
            raise waits() from error
        for location, name in wanted.items():
            if location not in allowed:
                raise refused(name, f"{location} is not allowed for the tenant any more")

    async def read(self, name: str, content: ObjectContent, request: io.BytesIO) -> None:
        """Append the content of an object. Raises InferenceError if it is not what the job was submitted with."""
        location, begin = Location(content.bucket, content.key), request.tell()
        try:
            reader = await self._buckets.open(content.bucket).read(content.key, content.offset)
            if reader.size != content.offset + content.size:
                raise missing(name, f"{location} has {reader.size} bytes, not {content.offset + content.size}")
            async for piece in reader.pieces:
                request.write(piece)
        except (StoreNotFound, StoreRangeInvalid) as error:
            raise missing(name, f"{location} was deleted, or cut") from error
        except (StoreDenied, SettingsError) as error:
            raise refused(name, f"Charonia may not read {location}") from error
        except StoreUnavailable as error:
            text = f"input '{name}': the bucket of {location} does not answer"
            raise InferenceError(Failure("input_location_failed", text, True)) from error
        if (got := request.tell() - begin) != content.size:
            text = f"input '{name}': the bucket sent {got} bytes of {location}, not {content.size}"
            raise InferenceError(Failure("input_location_failed", text, True))


def missing(name: str, reason: str) -> InferenceError:
    text = f"input '{name}': {reason}; store it again, and submit a new job"
    return InferenceError(Failure("input_missing", text, False))


def refused(name: str, reason: str) -> InferenceError:
    text = f"input '{name}': {reason}; ask your operator, and submit a new job"
    return InferenceError(Failure("input_location_refused", text, False))
