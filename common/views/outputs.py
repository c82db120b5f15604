"""Output tensors as the JSON of the API. The elements of a large tensor are in a file instead."""

import base64
import codecs
import math
import re
import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from common import ids
from common.security.signed_urls import UrlSigner
from common.tensors import CODES, ELEMENTS, FLOATS, SIZES, Datatype

NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as in protobuf's JSON
# A piece is rendered at a time; the event loop waits up to a millisecond for it.
PIECE = 4096  # elements
PIECE_BYTES = 48 * 1024  # of BYTES; a multiple of three, so that the base64 of pieces makes the base64 of the whole
DATA = b'"data":[]'
LENGTH_BYTES = 4  # before each element of BYTES

_FILE_FIELD = b'"file":"file_'
_FILE = re.compile(rb'"file":"(file_[0-9a-z]+)"')

# Outputs as JSON. Raw: they are passed on as they were stored, but for the URLs of files.
Outputs = Annotated[
    msgspec.Raw, Meta(extra_json_schema={"type": "array", "items": {"$ref": "#/components/schemas/Output"}})
]
Elements = Annotated[list[Any], Meta(extra_json_schema=ELEMENTS)]


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """An output tensor. It has `data`, or the `file` or the `location` with its elements."""

    name: str
    """The name of the output."""
    datatype: Datatype
    """The type of each element."""
    shape: list[int]
    """The size of each dimension, with the batch dimension first."""
    data: Elements | UnsetType = UNSET
    """The elements in row-major order, flat. BYTES are text, or `{"base64"}` where they are not UTF-8."""
    file: str | UnsetType = UNSET
    """Only of a large output, instead of `data`: the file with its elements, raw and little-endian.

    A file of BYTES is the element. If there are several, each follows its length in 4 bytes, little-endian.
    """
    download_url: str | UnsetType = UNSET
    """Where to download the file. The URL needs no key, for 7 days."""
    location: str | UnsetType = UNSET
    """Only of a job with an `output.location`, instead of `data`: the object with its elements, as in a file."""
    size: int | UnsetType = UNSET
    """The bytes of the file or the object."""
    sha256: str | UnsetType = UNSET
    """The SHA-256 of the file or the object in hexadecimal."""
    response: int = -1
    """Only of a streaming model: the number of its response, from 0."""


class OutputTensor(NamedTuple):
    """An output of a model. `data` may be a part of a message."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: bytes | memoryview


class BadOutput(Exception):
    """A model's output differs from what the model declares."""


def render_output(tensor: OutputTensor, response: int = -1) -> Iterator[bytes]:
    """Yield the pieces of a tensor's JSON; some may be empty. Raises BadOutput if the data does not fill the shape."""
    output = Output(tensor.name, tensor.datatype, tensor.shape, [], response=response)
    head, _, tail = msgspec.json.encode(output).rpartition(DATA)
    yield head + DATA[:-1]
    yield from render_elements(tensor)
    yield DATA[-1:] + tail


def render_elements(tensor: OutputTensor) -> Iterator[bytes]:
    """Yield the pieces of the elements in JSON, without brackets. Raises BadOutput."""
    count = math.prod(tensor.shape)
    yield from render_bytes(tensor, count) if tensor.datatype is Datatype.BYTES else render_numbers(tensor, count)


def render_numbers(tensor: OutputTensor, count: int) -> Iterator[bytes]:
    size = SIZES[tensor.datatype]
    check_length(tensor, count * size)
    step, separator = PIECE * size, b""
    for offset in range(0, len(tensor.data), step):
        values = read_values(tensor.datatype, bytes(tensor.data[offset : offset + step]))
        yield separator + msgspec.json.encode(values)[1:-1]
        separator = b","


def check_length(tensor: OutputTensor, expected: int) -> None:
    if len(tensor.data) != expected:
        text = f"output '{tensor.name}' has {len(tensor.data)} bytes, which do not fill shape {tensor.shape}"
        raise BadOutput(text)


def read_values(datatype: Datatype, raw: bytes) -> list[object]:
    count = len(raw) // SIZES[datatype]
    match datatype:
        case Datatype.FP16:
            values: Sequence[float] = list(struct.unpack(f"<{count}e", raw))
        case Datatype.BF16:  # the upper half of an FP32
            halves = struct.unpack(f"<{count}H", raw)
            values = list(struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *[half << 16 for half in halves])))
        case Datatype.BOOL:
            return [bool(value) for value in raw]
        case _:
            values = read_array(CODES[datatype], raw)
    if datatype in FLOATS and not math.isfinite(sum(values)):
        return [value if math.isfinite(value) else NON_FINITE[str(value)] for value in values]
    return [*values]


def read_array(code: str, raw: bytes) -> Sequence[float]:
    values = array(code, raw)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def render_bytes(tensor: OutputTensor, expected: int) -> Iterator[bytes]:
    """Yield elements. Each is text, or `{"base64": …}` if it is not UTF-8."""
    count, separator = 0, b""
    for elements in read_bytes(tensor.data):
        count += len(elements)
        yield separator
        if len(elements[0]) > PIECE_BYTES:
            yield from render_large(elements[0])
        else:
            yield msgspec.json.encode([read_element(bytes(element)) for element in elements])[1:-1]
        separator = b","
    check_count(tensor, count, expected)


def check_count(tensor: OutputTensor, count: int, expected: int) -> None:
    if count != expected:
        raise BadOutput(f"output '{tensor.name}' has {count} elements, but shape {tensor.shape} needs {expected}")


def read_bytes(data: bytes | memoryview) -> Iterator[list[memoryview]]:
    """Yield lists of elements, as large as a piece. An element that is larger is alone in its list."""
    raw, found = memoryview(data), list[memoryview]()
    offset = begin = 0
    while offset < len(raw):
        if offset + 4 > len(raw):
            raise BadOutput("a BYTES output ends inside a length")
        (length,) = struct.unpack_from("<I", raw, offset)
        element = raw[offset + 4 : offset + 4 + length]
        if len(element) != length:
            raise BadOutput("a BYTES output ends inside an element")
        if found and (len(found) == PIECE or offset + 4 + length - begin > PIECE_BYTES):
            yield found
            found, begin = [], offset
        found.append(element)
        offset += 4 + length
    if found:
        yield found


def read_element(element: bytes) -> object:
    try:
        return element.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(element).decode()}


def render_large(element: memoryview) -> Iterator[bytes]:
    """Yield an element in pieces. The first ones are empty, while it is not known whether the element is UTF-8."""
    pieces = [element[offset : offset + PIECE_BYTES] for offset in range(0, len(element), PIECE_BYTES)]
    try:
        for _ in decode_pieces(pieces):
            yield b""
    except UnicodeDecodeError:
        yield b'{"base64":"'
        yield from map(base64.b64encode, pieces)
        yield b'"}'
    else:
        yield b'"'
        for text in decode_pieces(pieces):
            yield msgspec.json.encode(text)[1:-1]
        yield b'"'


def decode_pieces(pieces: Sequence[memoryview]) -> Iterator[str]:
    """Yield the text of UTF-8 in pieces, which may end inside a character. Raises UnicodeDecodeError."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def write_content(tensor: OutputTensor, pause: Callable[[], None]) -> memoryview:
    """Return the content of the file of a tensor. Call `pause` now and then.

    Raises BadOutput if the data does not fill the shape.
    """
    content, count = memoryview(tensor.data), math.prod(tensor.shape)
    if tensor.datatype is not Datatype.BYTES:
        check_length(tensor, count * SIZES[tensor.datatype])
        return content
    found = 0
    for elements in read_bytes(content):
        found += len(elements)
        pause()
    check_count(tensor, found, count)
    return content[LENGTH_BYTES:] if count == 1 else content


def names_files(outputs: bytes) -> bool:
    """Return whether outputs as JSON name files. In a string the quotes would be escaped, so no text looks like one."""
    return _FILE_FIELD in outputs


def sign_files(
    outputs: bytes, public: str, signer: UrlSigner, at: datetime, lifetime: timedelta, job: UUID | None = None
) -> bytes:
    """Return outputs as JSON in which each file has a URL that needs no key for `lifetime` after `at`.

    With `job`, the URLs end with the erasure of that job.
    """
    if not names_files(outputs):
        return outputs

    def add_url(found: re.Match[bytes]) -> bytes:
        shown = found.group(1).decode()
        file_id = ids.parse(ids.Kind.FILE, shown)
        assert file_id is not None, "a dispatcher wrote the id"
        url = f"{public}/v1/files/{shown}/content?{signer.sign(file_id, at, lifetime, job)}"
        return found.group() + b',"download_url":' + msgspec.json.encode(url)

    return _FILE.sub(add_url, outputs)
