"""Reads what a model has returned: the outputs of a job, or of one response of a streaming model."""

import sys
from array import array
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import groupby
from typing import Any
from uuid import UUID

import msgspec

from common import ids
from common.errors import StoreNotFound
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.tensors import CODES, Datatype, RawElement
from common.views.outputs import LENGTH_BYTES
from services.gateway.http.limits.response_limits import ResponseLease
from services.gateway.http.problems import Problem
from services.gateway.openai.kinds.pieces import Outputs

UNREAD = (Datatype.FP16, Datatype.BF16)  # no kind has outputs of these
MAX_FILES = 64 * 1024 * 1024  # bytes of the outputs in files of one answer


class StoredOutput(msgspec.Struct, frozen=True):
    """An output as jobs have it: with its elements, or in a file."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: msgspec.Raw = msgspec.Raw(b"[]")
    file: str = ""
    size: int = 0
    response: int = -1


class OutputReader:
    """Reads outputs, and those of them that are in files."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    async def read(self, tenant_id: UUID, stored: bytes, lease: ResponseLease) -> list[Outputs]:
        """Return the outputs of each response, in order. The lease holds what is in files, if it holds nothing yet.

        Raises Problem: 410 if a file was deleted, 500 if there is too much in files, 503 without room for it.
        """
        found = msgspec.json.decode(stored, type=list[StoredOutput])
        size = sum(each.size for each in found)
        if size > MAX_FILES:
            text = f"the model returned {size} bytes; an answer of this API has {MAX_FILES} at most"
            raise Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "outputs_too_large", text)
        if size:
            await lease.reserve(tenant_id, size)
        contents = {each.file: await self._read_file(tenant_id, each) for each in found if each.file}
        return [
            {each.name: read_elements(each, contents.get(each.file)) for each in response}
            for response in split_responses(found)
        ]

    async def _read_file(self, tenant_id: UUID, output: StoredOutput) -> bytes:
        file_id = ids.parse(ids.Kind.FILE, output.file)
        assert file_id is not None, "a dispatcher wrote the id"
        try:
            reader = await self._objects.read(file_key(tenant_id, file_id))
            return b"".join([piece async for piece in reader.pieces])
        except StoreNotFound:
            text = "the job was deleted before its outputs were read"
            raise Problem(HTTPStatus.GONE, "gone", text) from None


def split_responses(outputs: Sequence[StoredOutput]) -> Iterator[list[StoredOutput]]:
    """Yield the outputs of each response: one response, unless the model streams."""
    return (list(each) for _, each in groupby(outputs, key=lambda output: output.response))


def read_elements(output: StoredOutput, content: bytes | None) -> Sequence[Any]:
    """Return the elements of an output: bytes, or numbers. `content` is that of its file."""
    if output.datatype in UNREAD:
        return ()
    if content is None and output.datatype is Datatype.BYTES:
        elements = msgspec.json.decode(output.data, type=list[str | RawElementBytes])
        return [each.encode() if isinstance(each, str) else each.base64 for each in elements]
    if content is None:
        return [float(each) for each in msgspec.json.decode(output.data, type=list[Any])]
    if output.datatype is Datatype.BYTES:
        return [content] if count(output.shape) == 1 else split_elements(content)
    numbers: array[Any] = array(CODES[output.datatype], content)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


class RawElementBytes(msgspec.Struct, frozen=True):
    """A RawElement, decoded."""

    base64: bytes


assert RawElementBytes.__struct_fields__ == RawElement.__struct_fields__, "it is the same in JSON"


def count(shape: Sequence[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def split_elements(content: bytes) -> list[bytes]:
    """Return the elements of a file of BYTES, each of which follows its length."""
    elements, offset = [], 0
    while offset < len(content):
        length = int.from_bytes(content[offset : offset + LENGTH_BYTES], "little")
        offset += LENGTH_BYTES
        elements.append(content[offset : offset + length])
        offset += length
    return elements
