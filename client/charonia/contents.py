"""The contents of outputs: raw elements, row-major and little-endian, as in their files. Pure."""

import math
import struct
import sys
from array import array
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from charonia.errors import CharoniaError
from charonia.schemas import Output
from charonia.tensors import CODES, FLOATS, Raw, encode_elements


def get_content(output: Output) -> bytes:
    """Return the content of an output's file. Raise CharoniaError if it is not downloaded."""
    if output.location is not None:
        raise CharoniaError(
            f"output {output.name!r} has {output.size} bytes at {output.location}, where only your own credentials "
            "can read it; read the object there"
        )
    if output.content is None:
        raise CharoniaError(
            f"output {output.name!r} has {output.size} bytes in {output.file}, and is not downloaded; "
            f"save it with client.files.save({output.file!r}, PATH), or ask for the result with download=True"
        )
    return output.content


def decode_elements(output: Output) -> list[Any]:
    """Return the elements; in JSON, bytes and floats that are not finite have forms of their own."""
    if not output.has_data:
        return decode_content(get_content(output), output.datatype, output.shape)
    if output.datatype == "BYTES":
        return [each if isinstance(each, str) else b64decode(each["base64"]) for each in output.data]
    if output.datatype in FLOATS:
        return [float(each) for each in output.data]
    return output.data


def decode_content(content: bytes, datatype: str, shape: list[int]) -> list[Any]:
    """Return the elements in the content of a file. BYTES are text where they are UTF-8."""
    if datatype == "BYTES":
        return [_read_element(each) for each in ([content] if math.prod(shape) == 1 else _split(content))]
    if datatype == "BF16":  # the upper half of an FP32
        return list(struct.unpack(f"<{len(content) // 2}f", widen(content)))
    if datatype == "FP16":
        return list(struct.unpack(f"<{len(content) // 2}e", content))
    values = array(CODES[datatype], content)
    if sys.byteorder == "big":
        values.byteswap()
    return [bool(each) for each in values] if datatype == "BOOL" else values.tolist()


def widen(content: bytes) -> bytes:
    """Return BF16 as FP32."""
    found = bytearray(2 * len(content))
    found[2::4], found[3::4] = content[::2], content[1::2]
    return bytes(found)


def encode_content(output: Output) -> bytes:
    """Return what the file of an output has, or would have if it were large."""
    if not output.has_data:
        return get_content(output)
    elements = decode_elements(output)
    if output.datatype == "BYTES":
        raw = [each.encode() if isinstance(each, str) else each for each in elements]
        return raw[0] if len(raw) == 1 else b"".join(struct.pack("<I", len(each)) + each for each in raw)
    encoded = encode_elements(elements, output.datatype)
    assert isinstance(encoded, Raw), "only BYTES are elements of their own"
    return encoded.base64


def _split(content: bytes) -> Iterator[bytes]:
    offset = 0
    while offset < len(content):
        (length,) = struct.unpack_from("<I", content, offset)
        yield content[offset + 4 : offset + 4 + length]
        offset += 4 + length


def _read_element(element: bytes) -> str | bytes:
    try:
        return element.decode()
    except UnicodeDecodeError:
        return element
