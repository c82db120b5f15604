"""A client's inputs, checked against the model's signature and packed into raw tensors."""

import base64
import binascii
import itertools
import math
import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Any

from common.tensors import CODES, FLOATS, SIZES, Datatype, Signature, Tensor
from services.gateway.errors import MAX_ERRORS, FieldError
from services.gateway.schemas import InputTensor

MAX_RANK = 16
INFINITE = 0x7F80  # in BF16, without the sign
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # as in protobuf's JSON


class InvalidTensor(Exception):
    """An input is not as the model wants it; the pointer is below the input's own."""

    def __init__(self, detail: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer


def read_inputs(
    inputs: dict[str, Any] | list[InputTensor], signatures: Sequence[Signature], max_batch_size: int
) -> tuple[list[Tensor], list[FieldError]]:
    """The tensors, or every mistake in them with its pointer."""
    declared = {signature.name: signature for signature in signatures}
    tensors: dict[str, Tensor] = {}
    errors: list[FieldError] = []
    named: list[tuple[str, str, Any]] = (
        [(name, f"/inputs/{escape(name)}", value) for name, value in inputs.items()]
        if isinstance(inputs, dict)
        else [(tensor.name, f"/inputs/{index}", tensor) for index, tensor in enumerate(inputs)]
    )
    for name, pointer, value in named:
        if len(errors) == MAX_ERRORS:
            break
        if name not in declared:
            errors.append(FieldError(pointer, f"the model has no input '{name}'; it has {list_names(signatures)}"))
        elif name in tensors:
            errors.append(FieldError(pointer, f"input '{name}' is given twice"))
        else:
            try:
                tensors[name] = read_input(value, declared[name], batched=max_batch_size > 0)
            except InvalidTensor as error:
                errors.append(FieldError(pointer + error.pointer, error.detail))
    given = {name for name, _, _ in named}
    errors += [
        FieldError("/inputs", f"input '{signature.name}' ({show(signature)}) is missing")
        for signature in signatures
        if not signature.optional and signature.name not in given
    ]
    if not errors:
        errors += check_batch(tensors.values(), max_batch_size)
    return list(tensors.values()), errors


def check_batch(tensors: Any, max_batch_size: int) -> list[FieldError]:
    """The first dimension of every input of a batching model is the batch: the same in all, within its limit."""
    if max_batch_size == 0:
        return []
    sizes = {tensor.shape[0] for tensor in tensors}
    if len(sizes) > 1:
        return [FieldError("/inputs", f"the inputs differ in their first dimension, the batch: {sorted(sizes)}")]
    if sizes and not 1 <= min(sizes) <= max_batch_size:
        return [FieldError("/inputs", f"the batch has {min(sizes)} items, the model takes 1 to {max_batch_size}")]
    return []


def read_input(value: Any, signature: Signature, *, batched: bool) -> Tensor:
    if isinstance(value, InputTensor):
        return read_protocol_tensor(value, signature)
    if is_raw(value) and signature.datatype is not Datatype.BYTES:
        raw = decode_raw(value)
        shape = infer_shape(len(raw), signature, batched=batched)
        return Tensor(signature.name, signature.datatype, shape, raw)
    shape, flat = flatten(value)
    shape = fit_shape(shape, signature, batched=batched)
    return Tensor(signature.name, signature.datatype, shape, encode(flat, signature.datatype))


def read_protocol_tensor(value: InputTensor, signature: Signature) -> Tensor:
    """One entry of the Open Inference Protocol's list, which says its own datatype and shape."""
    if value.datatype != signature.datatype:
        raise InvalidTensor(f"expected {signature.datatype}, got {value.datatype}", "/datatype")
    if not fits(value.shape, signature):
        raise InvalidTensor(f"expected shape {signature.shape}, got {value.shape}", "/shape")
    count = math.prod(value.shape)
    if signature.datatype is Datatype.BYTES and isinstance(value.data, bytes):
        check_elements(value.data, count)
        return Tensor(signature.name, signature.datatype, value.shape, value.data)
    if isinstance(value.data, bytes) or (is_raw(value.data) and signature.datatype is not Datatype.BYTES):
        raw = value.data if isinstance(value.data, bytes) else decode_raw(value.data, "/data")
        if len(raw) != count * SIZES[signature.datatype]:
            wanted = count * SIZES[signature.datatype]
            raise InvalidTensor(f"shape {value.shape} takes {wanted} bytes, got {len(raw)}", "/data")
        return Tensor(signature.name, signature.datatype, value.shape, raw)
    try:
        shape, flat = flatten(value.data)
        if len(flat) != count or (len(shape) > 1 and shape != value.shape):
            raise InvalidTensor(f"shape {value.shape} takes {count} elements, got {len(flat)} as {shape}")
        return Tensor(signature.name, signature.datatype, value.shape, encode(flat, signature.datatype))
    except InvalidTensor as error:
        raise InvalidTensor(error.detail, "/data" + error.pointer) from None


def check_elements(raw: bytes, count: int) -> None:
    """Raises InvalidTensor unless the bytes are so many elements, each after its length."""
    offset = found = 0
    while offset + 4 <= len(raw):
        (length,) = struct.unpack_from("<I", raw, offset)
        offset += 4 + length
        found += 1
    if offset != len(raw):
        raise InvalidTensor("the last element is not whole: each is preceded by its length in 4 bytes", "/data")
    if found != count:
        raise InvalidTensor(f"the shape takes {count} elements, got {found}", "/data")


def is_raw(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str)


def decode_raw(value: Any, pointer: str = "") -> bytes:
    try:
        return base64.b64decode(value["base64"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidTensor(f"not base64: {error}", f"{pointer}/base64") from error


def flatten(value: Any) -> tuple[list[int], list[Any]]:
    """The shape of nested lists, and their elements in row-major order."""
    shape: list[int] = []
    level = [value]
    while level and isinstance(level[0], list):
        if len(shape) == MAX_RANK:
            raise InvalidTensor(f"nested deeper than {MAX_RANK} lists")
        lengths = {len(item) if isinstance(item, list) else -1 for item in level}
        if len(lengths) > 1:
            raise InvalidTensor("the nested lists differ in length")
        shape.append(lengths.pop())
        level = list(itertools.chain.from_iterable(level))
    return shape, level


def fits(shape: Sequence[int], signature: Signature) -> bool:
    return len(shape) == len(signature.shape) and all(
        wanted in (-1, size) for size, wanted in zip(shape, signature.shape, strict=True)
    )


def fit_shape(shape: list[int], signature: Signature, *, batched: bool) -> list[int]:
    """The shape as the model takes it.

    A single value stands for a tensor of one element, and an item alone for a batch of one.
    """
    for candidate in (shape, [1, *shape] if batched else shape, [] if shape else [1] * len(signature.shape)):
        if fits(candidate, signature):
            return candidate
    raise InvalidTensor(f"expected shape {signature.shape}, got {shape}")


def infer_shape(size: int, signature: Signature, *, batched: bool) -> list[int]:
    """The shape that raw bytes fill, where at most one dimension (beside a batch of one) is open."""
    wanted = signature.shape
    if batched and wanted.count(-1) > 1:
        wanted = [1, *wanted[1:]]
    known = math.prod(dimension for dimension in wanted if dimension != -1) * SIZES[signature.datatype]
    if wanted.count(-1) > 1:
        raise InvalidTensor(f"shape {signature.shape} has several open dimensions; say the shape in the list form")
    if known == 0 or size % known or (-1 not in wanted and size != known):
        raise InvalidTensor(f"{size} bytes do not fill {signature.datatype} of shape {signature.shape}")
    return [size // known if dimension == -1 else dimension for dimension in wanted]


def encode(flat: list[Any], datatype: Datatype) -> bytes:
    """Elements as Triton takes them; nothing is converted silently: 1.7 is no integer, "1" no number, true neither."""
    if datatype is Datatype.BYTES:
        return b"".join([encode_element(element, index) for index, element in enumerate(flat)])
    allowed: set[type] = {bool} if datatype is Datatype.BOOL else {int}
    if datatype in FLOATS:
        allowed = {int, float}
        if str in set(map(type, flat)):
            flat = [SPECIAL.get(element, element) if isinstance(element, str) else element for element in flat]
    if not set(map(type, flat)) <= allowed:
        index = next(index for index, element in enumerate(flat) if type(element) not in allowed)
        raise InvalidTensor(f"expected {datatype}, got {name_type(flat[index])} at element {index}")
    try:
        return encode_numbers(flat, datatype)
    except (OverflowError, struct.error) as error:
        raise InvalidTensor(f"a value does not fit {datatype}: {error}") from error


def encode_numbers(flat: list[Any], datatype: Datatype) -> bytes:
    match datatype:
        case Datatype.FP16:
            return struct.pack(f"<{len(flat)}e", *flat)
        case Datatype.BF16:
            halves = list(map(round_half, struct.unpack(f"<{len(flat)}I", to_single(flat))))
            infinite = (value for half, value in zip(halves, flat, strict=True) if half & 0x7FFF == INFINITE)
            if any(map(math.isfinite, infinite)):
                raise OverflowError("too large")
            return struct.pack(f"<{len(flat)}H", *halves)
        case Datatype.FP32:
            return to_single(flat)
        case _:
            values = array(CODES[datatype], flat)
            if sys.byteorder == "big":
                values.byteswap()
            return values.tobytes()


def to_single(flat: list[Any]) -> bytes:
    return struct.pack(f"<{len(flat)}f", *flat)


def round_half(bits: int) -> int:
    """The upper half of an FP32, rounded to nearest, ties to even; a NaN stays one."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def encode_element(element: Any, index: int) -> bytes:
    if is_raw(element):
        try:
            data = decode_raw(element)
        except InvalidTensor as error:
            raise InvalidTensor(f"element {index} is {error.detail}") from error
    elif isinstance(element, str):
        data = encode_text(element, index)
    else:
        text = f'expected BYTES, a string or {{"base64"}}, got {name_type(element)} at element {index}'
        raise InvalidTensor(text)
    return struct.pack("<I", len(data)) + data


def encode_text(element: str, index: int) -> bytes:
    try:
        return element.encode()
    except UnicodeEncodeError as error:
        raise InvalidTensor(f"element {index} is not Unicode text: {error.reason}") from error


def name_type(element: Any) -> str:
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(element), "null")


def show(signature: Signature) -> str:
    return f"{signature.datatype} {signature.shape}"


def list_names(signatures: Sequence[Signature]) -> str:
    return ", ".join(f"'{signature.name}' ({show(signature)})" for signature in signatures)


def escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
