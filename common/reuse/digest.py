"""The key of a job: two jobs with the same key ask the same. Pure.

It is a SHA-256 over MessagePack. An input counts by its bytes, however the client sent them: as JSON, in base64, as
binary data, or as a file that has them. A URL may give other bytes each time, so a job with one has no key.
"""

import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from common.job_options import Parameters
from common.tensors import Datatype, FileContent, Tensor

FORMAT = 1  # of the key; raise it when another form would give the same key to what differs
LENGTH_BYTES = 4  # before each element of BYTES

_encoder = msgspec.msgpack.Encoder()


class Question(NamedTuple):
    """What a job asks for. `version` is the one asked for; None: the newest. Steps of pipelines keep other outputs."""

    tenant_id: UUID
    model: str
    version: str | None
    fallback_model: str | None
    is_step: bool
    parameters: Parameters | None


class _Content(NamedTuple):
    """The bytes of an input: `size` of them from `offset` on, in something with this SHA-256.

    `is_element`: they are one element of BYTES, without its length.
    """

    sha256: bytes
    offset: int
    size: int
    is_element: bool


def make_key(question: Question, inputs: Sequence[Tensor], files: Mapping[UUID, bytes]) -> bytes | None:
    """Return the key (32 bytes), or None if not all bytes of the inputs are known.

    `files` has the SHA-256 of each file that Charonia itself has hashed.
    """
    read = []
    for tensor in sorted(inputs, key=lambda each: each.name):
        content = _read_content(tensor, files)
        if content is None:
            return None
        by_reference = isinstance(tensor.data, FileContent) and tensor.data.by_reference
        read.append((tensor.name, tensor.datatype, tensor.shape, by_reference, content))
    parameters = msgspec.json.encode(question.parameters, order="sorted") if question.parameters else b""
    tenant, *rest = question[:-1]
    return hashlib.sha256(_encoder.encode((FORMAT, tenant.bytes, *rest, parameters, read))).digest()


def _read_content(tensor: Tensor, files: Mapping[UUID, bytes]) -> _Content | None:
    data, is_text = tensor.data, tensor.datatype is Datatype.BYTES
    if isinstance(data, bytes):
        if is_text and math.prod(tensor.shape) == 1 and _is_one_element(data):
            element = memoryview(data)[LENGTH_BYTES:]
            return _Content(hashlib.sha256(element).digest(), 0, len(element), is_element=True)
        return _Content(hashlib.sha256(data).digest(), 0, len(data), is_element=False)
    if isinstance(data, FileContent) and data.file_id in files:
        return _Content(files[data.file_id], data.offset, data.size, is_element=is_text and not data.inline)
    return None


def _is_one_element(data: bytes) -> bool:
    return len(data) >= LENGTH_BYTES and struct.unpack_from("<I", data) == (len(data) - LENGTH_BYTES,)
