"""Renders Triton's raw output tensors as the JSON of the API."""

import base64
import math
import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence

import msgspec

from common.tensors import CODES, FLOATS, SIZES, Datatype, Output, Signature, Tensor

NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as in protobuf's JSON
PIECE = 4096  # elements that are rendered at a time; the event loop waits up to a millisecond for them
PIECE_BYTES = 128 * 1024  # the same for BYTES, except that one element may be larger
DATA = b'"data":[]'


class BadOutput(Exception):
    """A model's output differs from what the model declares."""


class TooLarge(Exception):
    """A model's outputs are over the limit as JSON."""


def check_outputs(tensors: Sequence[Tensor], declared: Sequence[Signature], *, complete: bool) -> None:
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


def render_outputs(tensors: Sequence[Tensor], response: int, limit: int, pause: Callable[[], None]) -> bytes:
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


def render_output(tensor: Tensor, response: int = -1) -> Iterator[bytes]:
    """Yield the pieces of a tensor's JSON. Raises BadOutput if the data does not fill the shape."""
    output = Output(tensor.name, tensor.datatype, tensor.shape, [], response)
    head, _, tail = msgspec.json.encode(output).rpartition(DATA)
    expected, count, separator = math.prod(tensor.shape), 0, head + DATA[:-1]
    for values in read_bytes(tensor.data) if tensor.datatype is Datatype.BYTES else read_numbers(tensor, expected):
        count += len(values)
        yield separator + msgspec.json.encode(values)[1:-1]
        separator = b","
    if count != expected:
        raise BadOutput(f"output '{tensor.name}' has {count} elements, but shape {tensor.shape} needs {expected}")
    yield (b"" if count else separator) + DATA[-1:] + tail


def read_numbers(tensor: Tensor, count: int) -> Iterator[list[object]]:
    size = SIZES[tensor.datatype]
    if len(tensor.data) != count * size:
        text = f"output '{tensor.name}' has {len(tensor.data)} bytes, which do not fill shape {tensor.shape}"
        raise BadOutput(text)
    step = PIECE * size
    for offset in range(0, len(tensor.data), step):
        yield read_values(tensor.datatype, tensor.data[offset : offset + step])


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


def read_bytes(raw: bytes) -> Iterator[list[object]]:
    """Yield lists of elements. Each is text, or `{"base64": …}` if it is not UTF-8."""
    found: list[object] = []
    offset = begin = 0
    while offset < len(raw):
        if offset + 4 > len(raw):
            raise BadOutput("a BYTES output ends inside a length")
        (length,) = struct.unpack_from("<I", raw, offset)
        element = raw[offset + 4 : offset + 4 + length]
        if len(element) != length:
            raise BadOutput("a BYTES output ends inside an element")
        offset += 4 + length
        try:
            found.append(element.decode())
        except UnicodeDecodeError:
            found.append({"base64": base64.b64encode(element).decode()})
        if len(found) == PIECE or offset - begin >= PIECE_BYTES:
            yield found
            found, begin = [], offset
    if found:
        yield found
