"""Checks a client's inputs against the model's signature, and encodes them as raw tensors. Pure."""

import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any

from common.tensors import SIZES, Datatype, Signature, Tensor
from services.gateway.http.problems import MAX_ERRORS, FieldError, escape
from services.gateway.jobs.inputs.referenced_tensors import read_protocol_reference, read_reference
from services.gateway.jobs.inputs.references import KnownFiles, is_file, is_reference
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.inputs.shapes import fit_shape, fits, infer_shape, show_shape
from services.gateway.jobs.inputs.tensor_encoding import InvalidTensor, decode_raw, encode, is_raw

MAX_RANK = 16
NO_FILES = KnownFiles({}, 0)
ONLY_FILES = (
    "the model takes a reference to a file here, not data: upload it with POST /v1/files, and send "
    '{"file": "file_…"} with its id'
)


def read_inputs(
    inputs: dict[str, Any] | list[InputTensor],
    signatures: Sequence[Signature],
    max_batch_size: int,
    files: KnownFiles = NO_FILES,
) -> tuple[list[Tensor], list[FieldError]]:
    """Return the tensors, and every error with its pointer."""
    declared = {signature.name: signature for signature in signatures}
    tensors: dict[str, Tensor] = {}
    errors: list[FieldError] = []
    named = name_inputs(inputs)
    for name, pointer, value in named:
        if len(errors) == MAX_ERRORS:
            break
        if name not in declared:
            errors.append(FieldError(pointer, f"the model has no input '{name}'; it has {list_names(signatures)}"))
        elif name in tensors:
            errors.append(FieldError(pointer, f"input '{name}' is given more than once"))
        else:
            try:
                tensors[name] = read_input(value, declared[name], files, batched=max_batch_size > 0)
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


def name_inputs(inputs: dict[str, Any] | list[InputTensor]) -> list[tuple[str, str, Any]]:
    """Return each input with its name and its pointer."""
    if isinstance(inputs, dict):
        return [(name, f"/inputs/{escape(name)}", value) for name, value in inputs.items()]
    return [(tensor.name, f"/inputs/{index}", tensor) for index, tensor in enumerate(inputs)]


def check_batch(tensors: Any, max_batch_size: int) -> list[FieldError]:
    """Check the batch, the first dimension of every input: it must be the same in all, and within the model's limit."""
    if max_batch_size == 0:
        return []
    sizes = {tensor.shape[0] for tensor in tensors}
    if len(sizes) > 1:
        return [FieldError("/inputs", f"the batch, the first dimension, differs between inputs: {sorted(sizes)}")]
    if sizes and not 1 <= min(sizes) <= max_batch_size:
        return [FieldError("/inputs", f"the batch has {min(sizes)} items; the model accepts 1 to {max_batch_size}")]
    return []


def read_input(value: Any, signature: Signature, files: KnownFiles, *, batched: bool) -> Tensor:
    if isinstance(value, InputTensor):
        return read_protocol_tensor(value, signature, files)
    if signature.reference and not is_file(value):
        raise InvalidTensor(ONLY_FILES)
    if is_reference(value):
        return read_reference(value, signature, files, batched=batched)
    if is_raw(value) and signature.datatype is not Datatype.BYTES:
        raw = decode_raw(value)
        shape = infer_shape(len(raw), signature, batched=batched)
        return Tensor(signature.name, signature.datatype, shape, raw)
    shape, flat = flatten(value)
    shape = fit_shape(shape, signature, batched=batched)
    return Tensor(signature.name, signature.datatype, shape, encode(flat, signature.datatype))


def read_protocol_tensor(value: InputTensor, signature: Signature, files: KnownFiles) -> Tensor:
    """Read an entry of the Open Inference Protocol's list, which has its own datatype and shape."""
    if value.datatype != signature.datatype:
        raise InvalidTensor(f"expected {signature.datatype}, got {value.datatype}", "/datatype")
    if not fits(value.shape, signature):
        raise InvalidTensor(f"expected shape {show_shape(signature)}, got {value.shape}", "/shape")
    if signature.reference and not is_file(value.data):
        raise InvalidTensor(ONLY_FILES, "/data")
    if is_reference(value.data):
        return read_protocol_reference(value, signature, files)
    count = math.prod(value.shape)
    if signature.datatype is Datatype.BYTES and isinstance(value.data, bytes):
        check_elements(value.data, count)
        return Tensor(signature.name, signature.datatype, value.shape, value.data)
    if isinstance(value.data, bytes) or (is_raw(value.data) and signature.datatype is not Datatype.BYTES):
        raw = value.data if isinstance(value.data, bytes) else decode_raw(value.data, "/data")
        if len(raw) != count * SIZES[signature.datatype]:
            wanted = count * SIZES[signature.datatype]
            raise InvalidTensor(f"shape {value.shape} needs {wanted} bytes, got {len(raw)}", "/data")
        return Tensor(signature.name, signature.datatype, value.shape, raw)
    try:
        shape, flat = flatten(value.data)
        if len(flat) != count or (len(shape) > 1 and shape != value.shape):
            raise InvalidTensor(f"shape {value.shape} needs {count} elements, got {len(flat)} in shape {shape}")
        return Tensor(signature.name, signature.datatype, value.shape, encode(flat, signature.datatype))
    except InvalidTensor as error:
        raise InvalidTensor(error.detail, "/data" + error.pointer) from None


def check_elements(raw: bytes, count: int) -> None:
    """Raise InvalidTensor unless the bytes are `count` elements, each after its length."""
    offset = found = 0
    while offset + 4 <= len(raw):
        (length,) = struct.unpack_from("<I", raw, offset)
        offset += 4 + length
        found += 1
    if offset != len(raw):
        raise InvalidTensor("the last element is incomplete; 4 bytes with its length precede each", "/data")
    if found != count:
        raise InvalidTensor(f"the shape needs {count} elements, got {found}", "/data")


def flatten(value: Any) -> tuple[list[int], list[Any]]:
    """Return the shape of nested lists, and their elements in row-major order."""
    shape: list[int] = []
    level = [value]
    while level and isinstance(level[0], list):
        if len(shape) == MAX_RANK:
            raise InvalidTensor(f"lists are nested deeper than {MAX_RANK} levels")
        lengths = {len(item) if isinstance(item, list) else -1 for item in level}
        if len(lengths) > 1:
            raise InvalidTensor("the nested lists differ in length")
        shape.append(lengths.pop())
        level = list(itertools.chain.from_iterable(level))
    return shape, level


def show(signature: Signature) -> str:
    return f"{signature.datatype} {signature.shape}"


def list_names(signatures: Sequence[Signature]) -> str:
    return ", ".join(f"'{signature.name}' ({show(signature)})" for signature in signatures)
