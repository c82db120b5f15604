"""Reads the outputs of jobs that are in files, for the Open Inference Protocol.

Raw tensors are streamed from the object store. Those that are wanted as JSON are read before, so they are limited.
"""

from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from uuid import UUID

import msgspec

from common import ids
from common.errors import StoreNotFound
from common.object_store.keys import file_key
from common.object_store.store import PIECE, ObjectStore
from common.tensors import Datatype
from common.views.outputs import names_files
from services.gateway.http.limits.response_limits import ResponseLease
from services.gateway.http.problems import Problem
from services.gateway.jobs.store import FoundJob
from services.gateway.open_inference.requests import ResponseFormat, bad_request
from services.gateway.open_inference.responses import StoredOutput, begin_raw

MAX_JSON = 8 * 1024 * 1024  # raw bytes that become JSON
# The most bytes of JSON that a raw byte may take, such as `-0.000010013580322265625,` for two bytes of FP16.
JSON_BYTES = {
    Datatype.BOOL: 6,
    Datatype.BYTES: 6,
    Datatype.UINT8: 4,
    Datatype.UINT16: 3,
    Datatype.UINT32: 3,
    Datatype.UINT64: 3,
    Datatype.INT8: 5,
    Datatype.INT16: 4,
    Datatype.INT32: 3,
    Datatype.INT64: 3,
    Datatype.FP16: 13,
    Datatype.BF16: 13,
    Datatype.FP32: 7,
    Datatype.FP64: 4,
}
READ_AHEAD = 2 * PIECE  # bytes that a stream holds


class OutputFileReader:
    """Reads the files of one job's outputs."""

    def __init__(self, objects: ObjectStore, tenant_id: UUID) -> None:
        self._objects = objects
        self._tenant_id = tenant_id

    async def read_wanted(self, lease: ResponseLease, found: FoundJob, requested: ResponseFormat) -> dict[str, bytes]:
        """Return the contents of the files that are wanted as JSON, by output.

        The lease holds the most that the JSON may take. Shrink it once the JSON is there.

        Raises Problem: 400 if they are too large, 410 if the job was erased, 503 without room for them.
        """
        if found.outputs is None or not names_files(found.outputs):
            return {}
        stored = [each for each in msgspec.json.decode(found.outputs, type=list[StoredOutput]) if each.is_in_file]
        wanted = [each for each in stored if not is_binary(each.name, requested)]
        size = sum(each.size for each in wanted)
        if size > MAX_JSON:
            names = ", ".join(f"'{each.name}'" for each in wanted)
            raise bad_request(
                f"{names}: {size} bytes are too many for JSON ({MAX_JSON}): request them with binary_data"
            )
        lease.release()
        most = sum(each.size * JSON_BYTES[each.datatype] for each in wanted)
        await lease.reserve(self._tenant_id, len(found.outputs) + most + READ_AHEAD)
        return {each.name: b"".join([piece async for piece in self._read(each)]) for each in wanted}

    async def stream(self, parts: Sequence[bytes | StoredOutput]) -> AsyncIterator[bytes]:
        """Yield a response, in which an output stands for its raw tensor."""
        for part in parts:
            if isinstance(part, bytes):
                yield part
                continue
            if head := begin_raw(part):
                yield head
            async for piece in self._read(part):
                yield piece

    async def _read(self, output: StoredOutput) -> AsyncIterator[bytes]:
        file_id = ids.parse(ids.Kind.FILE, output.file)
        assert file_id is not None, "a dispatcher wrote the id"
        try:
            reader = await self._objects.read(file_key(self._tenant_id, file_id))
        except StoreNotFound:
            raise Problem(HTTPStatus.GONE, "gone", "the job was deleted before its outputs were read") from None
        async for piece in reader.pieces:
            yield piece


def is_binary(name: str, requested: ResponseFormat) -> bool:
    """Return whether an output is wanted as a raw tensor, or not at all."""
    return requested.binary if requested.outputs is None else requested.outputs.get(name, True)
