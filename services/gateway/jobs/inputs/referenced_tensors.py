"""Makes tensors of inputs that refer to files, objects in buckets and URLs. Pure."""

import math
from typing import Any, TypeAlias
from uuid import UUID

from common.locations.location import Location
from common.tensors import SIZES, Datatype, FileContent, ObjectContent, Signature, Tensor, UrlContent
from services.gateway.http.problems import escape
from services.gateway.jobs.inputs.npy import NpyHeader
from services.gateway.jobs.inputs.references import (
    LIMIT_TEXT,
    KnownFile,
    KnownFiles,
    check_fields,
    find_known,
    is_file,
    parse_description,
    parse_source,
)
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.inputs.shapes import fit_shape, infer_shape
from services.gateway.jobs.inputs.tensor_encoding import InvalidTensor

Stored: TypeAlias = UUID | Location  # a file, or an object in a bucket


def read_reference(value: dict[str, Any], signature: Signature, files: KnownFiles, *, batched: bool) -> Tensor:
    """Return the tensor of an input that is a reference, with its datatype and shape if they are needed.

    Raises InvalidTensor.
    """
    check_fields(value)
    source = parse_source(value, files)
    datatype, shape = parse_description(value)
    file = None if isinstance(source, UrlContent) else find_known(source, files, signature)
    if datatype not in (None, signature.datatype):
        raise InvalidTensor(f"expected {signature.datatype}, got {datatype}", "/datatype")
    if shape is not None or signature.datatype is Datatype.BYTES:
        return make_tensor(source, signature, fit_at_shape(shape or [], signature, batched=batched), files)
    if file is None or isinstance(source, UrlContent):
        text = "is missing; without it, nobody knows the shape before the content is fetched"
        raise InvalidTensor(f"{text}; expected {signature.shape}", "/shape")
    if file.npy is not None:
        return make_from_npy(source, signature, file.npy, file.size, batched=batched)
    shape = infer_shape(file.size, signature, batched=batched, advice="give its shape beside the file")
    return Tensor(signature.name, signature.datatype, shape, make_content(source, 0, file.size))


def read_protocol_reference(value: InputTensor, signature: Signature, files: KnownFiles) -> Tensor:
    """Return a tensor of the list form. Its datatype and shape are checked already. Raises InvalidTensor."""
    if extra := value.data.keys() - {"file" if is_file(value.data) else "url"}:
        raise InvalidTensor("belongs beside `data`, not into it", f"/data/{escape(min(extra))}")
    try:
        return make_tensor(parse_source(value.data, files), signature, value.shape, files)
    except InvalidTensor as error:
        pointer = error.pointer if error.pointer == "/shape" else "/data" + error.pointer
        raise InvalidTensor(error.detail, pointer) from None


def make_tensor(source: Stored | UrlContent, signature: Signature, shape: list[int], files: KnownFiles) -> Tensor:
    """Return the tensor of this shape whose elements are the whole content. Raises InvalidTensor if it cannot be."""
    if isinstance(source, UrlContent):
        return make_from_url(source, signature, shape, files)
    make = make_element if signature.datatype is Datatype.BYTES else make_numbers
    return make(source, signature, shape, find_known(source, files, signature))


def fit_at_shape(shape: list[int], signature: Signature, *, batched: bool) -> list[int]:
    try:
        return fit_shape(shape, signature, batched=batched)
    except InvalidTensor as error:
        raise InvalidTensor(error.detail, "/shape") from None


def make_from_url(url: UrlContent, signature: Signature, shape: list[int], files: KnownFiles) -> Tensor:
    count = math.prod(shape)
    if signature.datatype is Datatype.BYTES:
        if count != 1:
            raise InvalidTensor(f"the content of a URL is one element, but shape {shape} needs {count}", "/shape")
    elif (size := count * SIZES[signature.datatype]) > files.max_tensor:
        text = f"shape {shape} of {signature.datatype} has {size} bytes; {LIMIT_TEXT.format(limit=files.max_tensor)}"
        raise InvalidTensor(text, "/shape")
    return Tensor(signature.name, signature.datatype, shape, url)


def make_element(source: Stored, signature: Signature, shape: list[int], file: KnownFile) -> Tensor:
    """Return a tensor of BYTES whose one element is a whole file, or its URL."""
    if (count := math.prod(shape)) != 1:
        raise InvalidTensor(f"a whole file is one element, but shape {shape} needs {count}", "/shape")
    content = make_content(source, 0, file.size, by_reference=signature.reference)
    return Tensor(signature.name, signature.datatype, shape, content)


def make_numbers(source: Stored, signature: Signature, shape: list[int], file: KnownFile) -> Tensor:
    """Return a tensor whose raw, little-endian elements are a whole file."""
    wanted = math.prod(shape) * SIZES[signature.datatype]
    if file.size != wanted:
        text = f"shape {shape} of {signature.datatype} needs {wanted} bytes, the file has {file.size}"
        text += "; only raw elements have a shape here, an .npy file has its own"
        raise InvalidTensor(text, get_pointer(source))
    return Tensor(signature.name, signature.datatype, shape, make_content(source, 0, file.size))


def make_from_npy(source: Stored, signature: Signature, header: NpyHeader | str, size: int, *, batched: bool) -> Tensor:
    """Return the tensor in an .npy file of `size` bytes."""
    pointer = get_pointer(source)
    if isinstance(header, str):
        raise InvalidTensor(f"the .npy file cannot be used: {header}", pointer)
    if header.datatype is not signature.datatype:
        text = f"the .npy file has {header.datatype}, the model expects {signature.datatype}; convert it with astype"
        raise InvalidTensor(text, pointer)
    try:
        shape = fit_shape(header.shape, signature, batched=batched)
    except InvalidTensor as error:
        raise InvalidTensor(f"the .npy file does not fit: {error.detail}", pointer) from None
    left, wanted = size - header.offset, math.prod(shape) * SIZES[signature.datatype]
    if left != wanted:
        text = f"the .npy file has {left} bytes of elements, but shape {shape} needs {wanted}; upload it again"
        raise InvalidTensor(text, pointer)
    return Tensor(signature.name, signature.datatype, shape, make_content(source, header.offset, left))


def get_pointer(source: Stored) -> str:
    return "/url" if isinstance(source, Location) else "/file"


def make_content(source: Stored, offset: int, size: int, *, by_reference: bool = False) -> FileContent | ObjectContent:
    if isinstance(source, Location):
        return ObjectContent(source.bucket, source.key, offset, size)
    return FileContent(source, offset, size, by_reference=by_reference)
