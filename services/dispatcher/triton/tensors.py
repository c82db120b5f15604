"""Renders Triton's raw output tensors as the JSON of the API."""

import base64
import codecs
import math
import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from common.tensors import CODES, FLOATS, SIZES, Datatype, Output, Signature

NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as in protobuf's JSON
# A piece is rendered at a time; the event loop waits up to a millisecond for it.
PIECE = 4096  # elements
PIECE_BYTES = 48 * 1024  # of BYTES; a multiple of three, so that the base64 of pieces makes the base64 of the whole
DATA = b'"data":[]'


class OutputTensor(NamedTuple):
    """An output of a model. `data` may be a part of a message."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: bytes | memoryview


class BadOutput(Exception):
    """A model's output differs from what the model declares."""


class TooLarge(Exception):
    """A model's outputs are over the limit as JSON."""


def check_outputs(tensors: Sequence[OutputTensor], declared: Sequence[Signature], *, complete: bool) -> None:
    """Raise BadOutput unless each tensor matches its declaration. With `complete`, no output may be missing.

    Triton checks neither.
    """
    by_name = {signature.name: signature for signature in declared}
    for tensor in tensors:
        signature = by_name.get(tensor.name)
        if signature is None:
            raise BadOutput(f"the model returned output '{tensor.name}', which it does not declare")
        if tensor.datatype != signature.datatype:
            raise BadOutput(f"output '{tensor.name}' is {tensor.datatype}, but is declared as {signature.datatype}")
        fits = len(tensor.shape) == len(signature.shape) and all(
            wanted in (-1, size) for size, wanted in zip(tensor.shape, signature.shape, strict=True)
        )
        if not fits:
            raise BadOutput(f"output '{tensor.name}' has shape {tensor.shape}, but is declared as {signature.shape}")
    if complete and (missing := by_name.keys() - {tensor.name for tensor in tensors}):
        raise BadOutput(f"the model did not return its output '{min(missing)}'")


def render_outputs(tensors: Sequence[OutputTensor], response: int, limit: int, pause: Callable[[], None]) -> bytes:
    """Return tensors as the JSON list of the API. Call `pause` now and then, so that other threads can run.

    Raises TooLarge beyond `limit` bytes, before it needs more memory than that. Raises BadOutput if a tensor does
    not have as much data as its shape needs.
    """
    found, size = [b"["], 1 + len(tensors)  # of brackets and commas
    for number, tensor in enumerate(tensors):
        for piece in render_output(tensor, response):
            size += len(piece)
            if size > limit:
                raise TooLarge
            found.append(piece)
            pause()
        found.append(b"]" if number == len(tensors) - 1 else b",")
    return b"".join(found) if tensors else b"[]"


def render_output(tensor: OutputTensor, response: int = -1) -> Iterator[bytes]:
    """Yield the pieces of a tensor's JSON; some may be empty. Raises BadOutput if the data does not fill the shape."""
    output = Output(tensor.name, tensor.datatype, tensor.shape, [], response)
    head, _, tail = msgspec.json.encode(output).rpartition(DATA)
    expected = math.prod(tensor.shape)
    yield head + DATA[:-1]
    yield from render_bytes(tensor, expected) if tensor.datatype is Datatype.BYTES else render_numbers(tensor, expected)
    yield DATA[-1:] + tail


def render_numbers(tensor: OutputTensor, count: int) -> Iterator[bytes]:
    size = SIZES[tensor.datatype]
    if len(tensor.data) != count * size:
        text = f"output '{tensor.name}' has {len(tensor.data)} bytes, which do not fill shape {tensor.shape}"
        raise BadOutput(text)
    step, separator = PIECE * size, b""
    for offset in range(0, len(tensor.data), step):
        values = read_values(tensor.datatype, bytes(tensor.data[offset : offset + step]))
        yield separator + msgspec.json.encode(values)[1:-1]
        separator = b","


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
