"""Reads inputs that refer to files: `{"file": "file_…"}`, with a datatype and a shape where they are needed. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec

from common import ids
from common.locations.location import SCHEME, InvalidLocation, Location, parse_object
from common.security.ssrf import AddressPolicy
from common.tensors import SIZES, Datatype, FileContent, ObjectContent, Signature, Tensor
from services.gateway.http.problems import escape
from services.gateway.http.validation.allowed_values import show
from services.gateway.models.npy import LARGEST_SIZE, NpyHeader
from services.gateway.models.schemas import InputTensor
from services.gateway.models.shapes import fit_shape, infer_shape
from services.gateway.models.tensor_encoding import InvalidTensor

DESCRIPTION = ("datatype", "shape")
LIMIT_TEXT = "a tensor may have {limit} (CHARONIA_MAX_TENSOR); send less, or ask your operator"


class KnownFile(msgspec.Struct, frozen=True):
    """A file of the tenant. `npy` is its header, or why that is invalid, if it is read as an .npy file."""

    size: int
    npy: NpyHeader | str | None = None


class KnownFiles(msgspec.Struct, frozen=True):
    """The files that inputs may refer to, the most bytes of one tensor, and which URLs may be used.

    `objects` are those of buckets, each as it is, or with the reason why it cannot be used. Outputs may go to the
    folders in `writable`.
    """

    found: Mapping[UUID, KnownFile]
    max_tensor: int
    policy: AddressPolicy = AddressPolicy()
    objects: Mapping[Location, KnownFile | str] = MappingProxyType({})
    writable: Collection[Location] = ()


class FileReference(msgspec.Struct, frozen=True):
    """An input as a client refers to it."""

    file_id: UUID
    datatype: Datatype | None = None
    shape: list[int] | None = None

    @property
    def name(self) -> str:
        return ids.encode(ids.Kind.FILE, self.file_id)

    @property
    def pointer(self) -> str:
        return "/file"

    def content(self, offset: int, size: int) -> FileContent:
        return FileContent(self.file_id, offset, size)


class ObjectReference(msgspec.Struct, frozen=True):
    """An input in a bucket, as a client refers to it."""

    location: Location
    datatype: Datatype | None = None
    shape: list[int] | None = None

    @property
    def pointer(self) -> str:
        return "/url"

    def content(self, offset: int, size: int) -> ObjectContent:
        return ObjectContent(self.location.bucket, self.location.key, offset, size)


Source = FileReference | ObjectReference


def is_file(value: Any) -> bool:
    return isinstance(value, dict) and "file" in value


def find_sources(
    inputs: Mapping[str, Any] | Sequence[InputTensor], declared: Sequence[Signature]
) -> dict[UUID | Location, bool]:
    """Return the files and objects that inputs of a model refer to, each with whether it may be an .npy file."""
    found: dict[UUID | Location, bool] = {}
    given = inputs if isinstance(inputs, Mapping) else {tensor.name: tensor.data for tensor in inputs}
    for signature in declared:
        value: Any = given.get(signature.name)
        source = find_source(value)
        if source is not None:
            may_be_npy = (
                signature.datatype is not Datatype.BYTES and isinstance(inputs, Mapping) and "shape" not in value
            )
            found[source] = may_be_npy or found.get(source, False)
    return found


def find_source(value: Any) -> UUID | Location | None:
    """Return the file or the object that an input refers to. Return None for any other input, or an invalid one."""
    if is_file(value):
        return ids.parse(ids.Kind.FILE, value["file"]) if isinstance(value["file"], str) else None
    try:
        return parse_object(value["url"]) if is_location(value) else None
    except InvalidLocation:
        return None


def is_location(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("url"), str) and value["url"].startswith(SCHEME)


def parse_reference(value: dict[str, Any]) -> FileReference:
    """Return the reference in an object that has a `file`. Raises InvalidTensor."""
    check_fields(value, "file")
    text = value["file"]
    file_id = ids.parse(ids.Kind.FILE, text) if isinstance(text, str) else None
    if file_id is None:
        raise InvalidTensor(f"expected the id of a file, got {show(text)}; POST /v1/files returns one", "/file")
    return FileReference(file_id, *parse_description(value))


def check_fields(value: dict[str, Any], kind: str) -> None:
    """Raise InvalidTensor for a field of a reference that is neither its kind nor its description."""
    for name in value:
        if name not in (kind, *DESCRIPTION):
            text = f"is unknown; beside `{kind}` may be {' and '.join(DESCRIPTION)}"
            raise InvalidTensor(text, f"/{escape(name)}")


def parse_description(value: dict[str, Any]) -> tuple[Datatype | None, list[int] | None]:
    """Return the datatype and the shape beside a file or URL. Raises InvalidTensor."""
    datatype, shape = value.get("datatype"), value.get("shape")
    if datatype is not None and datatype not in list(Datatype):
        raise InvalidTensor(f"expected one of {', '.join(Datatype)}, got {show(datatype)}", "/datatype")
    if shape is not None and not is_shape(shape):
        raise InvalidTensor(f"expected a list of whole numbers from 0, got {show(shape)}", "/shape")
    return None if datatype is None else Datatype(datatype), shape


def is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size <= LARGEST_SIZE for size in value)


def read_file_input(value: dict[str, Any], signature: Signature, files: KnownFiles, *, batched: bool) -> Tensor:
    """Return the tensor of an input that refers to a file. Raises InvalidTensor."""
    reference = parse_reference(value)
    file = find_file(reference, files, by_reference=signature.reference)
    return read_source(reference, signature, file, batched=batched)


def read_source(reference: Source, signature: Signature, file: KnownFile, *, batched: bool) -> Tensor:
    """Return the tensor of an input whose content is a file or an object. Raises InvalidTensor."""
    check_datatype(reference.datatype, signature)
    if signature.datatype is Datatype.BYTES:
        shape = fit_at_shape(reference.shape or [], signature, batched=batched)
        return read_element(reference, signature, shape, file)
    if reference.shape is not None:
        return read_numbers(reference, signature, fit_at_shape(reference.shape, signature, batched=batched), file)
    if file.npy is not None:
        return read_npy(reference, signature, file.npy, file.size, batched=batched)
    shape = infer_shape(file.size, signature, batched=batched, advice="give its shape beside the file")
    return Tensor(signature.name, signature.datatype, shape, reference.content(0, file.size))


def read_file_tensor(value: InputTensor, signature: Signature, files: KnownFiles) -> Tensor:
    """Return a tensor of the list form. Its datatype and shape are checked already. Raises InvalidTensor."""
    if extra := value.data.keys() - {"file"}:
        raise InvalidTensor("belongs beside `data`, not into it", f"/data/{escape(min(extra))}")
    read = read_element if signature.datatype is Datatype.BYTES else read_numbers
    try:
        reference = parse_reference(value.data)
        file = find_file(reference, files, by_reference=signature.reference)
        return read(reference, signature, value.shape, file)
    except InvalidTensor as error:
        raise InvalidTensor(
            error.detail, error.pointer if error.pointer == "/shape" else "/data" + error.pointer
        ) from None


def find_file(reference: FileReference, files: KnownFiles, *, by_reference: bool) -> KnownFile:
    """Return the file. Raises InvalidTensor. A model that gets a URL may read a file of any size."""
    file = files.found.get(reference.file_id)
    if file is None:
        text = (
            f"file not found: {reference.name} was deleted, has expired or is not yours; upload it with POST /v1/files"
        )
        raise InvalidTensor(f"{text}. After an upload to the bucket, GET /v1/files/{{id}} first", "/file")
    if file.size > files.max_tensor and not by_reference:
        text = f"the file has {file.size} bytes; {LIMIT_TEXT.format(limit=files.max_tensor)}"
        raise InvalidTensor(text, "/file")
    return file


def check_datatype(datatype: Datatype | None, signature: Signature) -> None:
    if datatype not in (None, signature.datatype):
        raise InvalidTensor(f"expected {signature.datatype}, got {datatype}", "/datatype")


def fit_at_shape(shape: list[int], signature: Signature, *, batched: bool) -> list[int]:
    try:
        return fit_shape(shape, signature, batched=batched)
    except InvalidTensor as error:
        raise InvalidTensor(error.detail, "/shape") from None


def read_element(reference: Source, signature: Signature, shape: list[int], file: KnownFile) -> Tensor:
    """Return a tensor of BYTES whose one element is a whole file, or its URL."""
    if (count := math.prod(shape)) != 1:
        raise InvalidTensor(f"a whole file is one element, but shape {shape} needs {count}", "/shape")
    content = reference.content(0, file.size)
    if isinstance(content, FileContent):
        content = msgspec.structs.replace(content, by_reference=signature.reference)
    return Tensor(signature.name, signature.datatype, shape, content)


def read_numbers(reference: Source, signature: Signature, shape: list[int], file: KnownFile) -> Tensor:
    """Return a tensor whose raw, little-endian elements are a whole file."""
    wanted = math.prod(shape) * SIZES[signature.datatype]
    if file.size != wanted:
        text = f"shape {shape} of {signature.datatype} needs {wanted} bytes, the file has {file.size}"
        raise InvalidTensor(f"{text}; only raw elements have a shape here, an .npy file has its own", reference.pointer)
    return Tensor(signature.name, signature.datatype, shape, reference.content(0, file.size))


def read_npy(reference: Source, signature: Signature, header: NpyHeader | str, size: int, *, batched: bool) -> Tensor:
    """Return the tensor in an .npy file of `size` bytes."""
    if isinstance(header, str):
        raise InvalidTensor(f"the .npy file cannot be used: {header}", reference.pointer)
    if header.datatype is not signature.datatype:
        text = f"the .npy file has {header.datatype}, the model expects {signature.datatype}; convert it with astype"
        raise InvalidTensor(text, reference.pointer)
    try:
        shape = fit_shape(header.shape, signature, batched=batched)
    except InvalidTensor as error:
        raise InvalidTensor(f"the .npy file does not fit: {error.detail}", reference.pointer) from None
    left, wanted = size - header.offset, math.prod(shape) * SIZES[signature.datatype]
    if left != wanted:
        text = f"the .npy file has {left} bytes of elements, but shape {shape} needs {wanted}; upload it again"
        raise InvalidTensor(text, reference.pointer)
    return Tensor(signature.name, signature.datatype, shape, reference.content(header.offset, left))
