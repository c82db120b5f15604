"""What an input refers to: `{"file": "file_…"}`, or `{"url"}` of a bucket or a web server. Pure."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec

from common import ids
from common.errors import AddressRefused
from common.locations.location import SCHEME, InvalidLocation, Location, parse_object
from common.security.ssrf import AddressPolicy, check_url
from common.tensors import Datatype, Signature, UrlContent
from services.gateway.http.problems import escape
from services.gateway.http.validation.allowed_values import show
from services.gateway.jobs.inputs.npy import LARGEST_SIZE, NpyHeader
from services.gateway.jobs.inputs.schemas import InputTensor
from services.gateway.jobs.inputs.tensor_encoding import InvalidTensor

DESCRIPTION = ("datatype", "shape")
LIMIT_TEXT = "a tensor may have {limit} (CHARONIA_MAX_TENSOR_BYTES); send less, or ask your operator"
MAX_URL = 8000  # characters; signed URLs of object stores are long


class KnownFile(msgspec.Struct, frozen=True):
    """A file of the tenant. `npy` is its header, or why that is invalid, if it is read as an .npy file.

    `sha256` is None if Charonia has not hashed the file itself.
    """

    size: int
    npy: NpyHeader | str | None = None
    sha256: bytes | None = None


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


def is_reference(value: Any) -> bool:
    return isinstance(value, dict) and ("file" in value or "url" in value)


def is_file(value: Any) -> bool:
    return isinstance(value, dict) and "file" in value


def is_location(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("url"), str) and value["url"].startswith(SCHEME)


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


def parse_source(value: dict[str, Any], files: KnownFiles) -> UUID | Location | UrlContent:
    """Return what a reference names: a file, an object, or a URL that dispatchers fetch. Raises InvalidTensor."""
    if is_file(value):
        text = value["file"]
        file_id = ids.parse(ids.Kind.FILE, text) if isinstance(text, str) else None
        if file_id is None:
            raise InvalidTensor(f"expected the id of a file, got {show(text)}; POST /v1/files returns one", "/file")
        return file_id
    url = value["url"]
    if not isinstance(url, str):
        raise InvalidTensor(f"expected a URL such as https://example.com/cat.png, got {show(url)}", "/url")
    try:
        if is_location(value):
            return parse_object(url)
        check_url(url, files.policy, MAX_URL)
    except InvalidLocation as error:
        raise InvalidTensor(f"cannot be used: {error}", "/url") from None
    except AddressRefused as error:
        raise InvalidTensor(str(error), "/url") from None
    return UrlContent(url)


def find_known(source: UUID | Location, files: KnownFiles, signature: Signature) -> KnownFile:
    """Return a file or an object. Raises InvalidTensor. A model that gets a URL may read a file of any size."""
    if isinstance(source, Location):
        found = files.objects.get(source, "it was not looked up; submit again")
        if isinstance(found, str):
            raise InvalidTensor(f"{source} cannot be used: {found}", "/url")
        check_size("object", found.size, files.max_tensor, "/url")
        return found
    file = files.found.get(source)
    if file is None:
        name = ids.encode(ids.Kind.FILE, source)
        text = f"file not found: {name} was deleted, has expired or is not yours; upload it with POST /v1/files"
        raise InvalidTensor(f"{text}. After an upload to the bucket, GET /v1/files/{{id}} first", "/file")
    if not signature.reference:
        check_size("file", file.size, files.max_tensor, "/file")
    return file


def check_size(what: str, size: int, limit: int, pointer: str) -> None:
    if size > limit:
        raise InvalidTensor(f"the {what} has {size} bytes; {LIMIT_TEXT.format(limit=limit)}", pointer)


def check_fields(value: dict[str, Any]) -> None:
    """Raise InvalidTensor for a field of a reference that is neither its kind nor its description."""
    kind = "file" if is_file(value) else "url"
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
