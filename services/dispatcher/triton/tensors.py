"""Renders Triton's raw output tensors as the JSON of the API."""

import base64
import math
import struct
import sys
from array import array
from collections.abc import Sequence

from common.tensors import CODES, FLOATS, SIZES, Datatype, Output, Signature, Tensor

NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as in protobuf's JSON


class BadOutput(Exception):
    """A model's output differs from what the model declares."""


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


def render_output(tensor: Tensor, response: int = -1) -> Output:
    """Return a tensor as an output of the API. Raises BadOutput if the data does not fill the shape."""
    count = math.prod(tensor.shape)
    data = read_bytes(tensor.data) if tensor.datatype is Datatype.BYTES else read_numbers(tensor, count)
    if len(data) != count:
        raise BadOutput(f"output '{tensor.name}' has {len(data)} elements, but shape {tensor.shape} needs {count}")
    return Output(tensor.name, tensor.datatype, tensor.shape, data, response)


def read_numbers(tensor: Tensor, count: int) -> list[object]:
    datatype, raw = tensor.datatype, tensor.data
    if len(raw) != count * SIZES[datatype]:
        raise BadOutput(f"output '{tensor.name}' has {len(raw)} bytes, which do not fill shape {tensor.shape}")
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


def read_bytes(raw: bytes) -> list[object]:
    """Return each element as text, or as {"base64": …} if it is not UTF-8."""
    found: list[object] = []
    offset = 0
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
    return found
