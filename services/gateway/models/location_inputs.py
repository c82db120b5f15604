"""Reads inputs in buckets: `{"url": "s3://bucket/key"}`, with a datatype and a shape where they are needed. Pure."""

from typing import Any

from common.locations.location import InvalidLocation, Location, parse_object
from common.tensors import Datatype, Signature, Tensor
from services.gateway.http.problems import escape
from services.gateway.models.file_inputs import (
    LIMIT_TEXT,
    KnownFile,
    KnownFiles,
    ObjectReference,
    check_fields,
    parse_description,
    read_element,
    read_numbers,
    read_source,
)
from services.gateway.models.schemas import InputTensor
from services.gateway.models.tensor_encoding import InvalidTensor


def read_location_input(value: dict[str, Any], signature: Signature, files: KnownFiles, *, batched: bool) -> Tensor:
    """Return the tensor of an input in a bucket. Raises InvalidTensor."""
    check_fields(value, "url")
    reference = ObjectReference(parse_location(value["url"]), *parse_description(value))
    return read_source(reference, signature, find_object(reference.location, files), batched=batched)


def read_location_tensor(value: InputTensor, signature: Signature, files: KnownFiles) -> Tensor:
    """Return a tensor of the list form. Its datatype and shape are checked already. Raises InvalidTensor."""
    if extra := value.data.keys() - {"url"}:
        raise InvalidTensor("belongs beside `data`, not into it", f"/data/{escape(min(extra))}")
    read = read_element if signature.datatype is Datatype.BYTES else read_numbers
    try:
        reference = ObjectReference(parse_location(value.data["url"]))
        return read(reference, signature, value.shape, find_object(reference.location, files))
    except InvalidTensor as error:
        pointer = error.pointer if error.pointer == "/shape" else "/data" + error.pointer
        raise InvalidTensor(error.detail, pointer) from None


def parse_location(text: str) -> Location:
    try:
        return parse_object(text)
    except InvalidLocation as error:
        raise InvalidTensor(f"cannot be used: {error}", "/url") from None


def find_object(location: Location, files: KnownFiles) -> KnownFile:
    """Return the object. Raises InvalidTensor if it cannot be used."""
    found = files.objects.get(location, "it was not looked up; submit again")
    if isinstance(found, str):
        raise InvalidTensor(f"{location} cannot be used: {found}", "/url")
    if found.size > files.max_tensor:
        text = f"the object has {found.size} bytes; {LIMIT_TEXT.format(limit=files.max_tensor)}"
        raise InvalidTensor(text, "/url")
    return found
