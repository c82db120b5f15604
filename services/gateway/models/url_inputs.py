"""Reads inputs that dispatchers fetch: `{"url": "https://…"}`, with a shape for numbers. Pure."""

import math
from typing import Any

from common.errors import AddressRefused
from common.security.ssrf import check_url
from common.tensors import SIZES, Datatype, Signature, Tensor, UrlContent
from services.gateway.http.problems import escape
from services.gateway.http.validation.allowed_values import show
from services.gateway.models.file_inputs import (
    LIMIT_TEXT,
    KnownFiles,
    check_datatype,
    check_fields,
    fit_at_shape,
    parse_description,
)
from services.gateway.models.schemas import InputTensor
from services.gateway.models.tensor_encoding import InvalidTensor

MAX_URL = 8000  # characters; signed URLs of object stores are long


def is_url(value: Any) -> bool:
    return isinstance(value, dict) and "url" in value


def read_url_input(value: dict[str, Any], signature: Signature, files: KnownFiles, *, batched: bool) -> Tensor:
    """Return the tensor of an input that has a URL. Raises InvalidTensor."""
    check_fields(value, "url")
    url = parse_url(value["url"], files)
    datatype, shape = parse_description(value)
    check_datatype(datatype, signature)
    if shape is None and signature.datatype is not Datatype.BYTES:
        text = (
            f"is missing; without it, nobody knows the shape before the content is fetched; expected {signature.shape}"
        )
        raise InvalidTensor(text, "/shape")
    return make_tensor(url, signature, fit_at_shape(shape or [], signature, batched=batched), files)


def read_url_tensor(value: InputTensor, signature: Signature, files: KnownFiles) -> Tensor:
    """Return a tensor of the list form. Its datatype and shape are checked already. Raises InvalidTensor."""
    if extra := value.data.keys() - {"url"}:
        raise InvalidTensor("belongs beside `data`, not into it", f"/data/{escape(min(extra))}")
    try:
        return make_tensor(parse_url(value.data["url"], files), signature, value.shape, files)
    except InvalidTensor as error:
        pointer = error.pointer if error.pointer == "/shape" else "/data" + error.pointer
        raise InvalidTensor(error.detail, pointer) from None


def parse_url(text: Any, files: KnownFiles) -> str:
    """Return a URL that dispatchers may fetch. Raises InvalidTensor."""
    if not isinstance(text, str):
        raise InvalidTensor(f"expected a URL such as https://example.com/cat.png, got {show(text)}", "/url")
    try:
        check_url(text, files.policy, MAX_URL)
    except AddressRefused as error:
        raise InvalidTensor(str(error), "/url") from None
    return text


def make_tensor(url: str, signature: Signature, shape: list[int], files: KnownFiles) -> Tensor:
    """Return the tensor of this shape. Raises InvalidTensor if a whole content cannot have it."""
    count = math.prod(shape)
    if signature.datatype is Datatype.BYTES:
        if count != 1:
            raise InvalidTensor(f"the content of a URL is one element, but shape {shape} needs {count}", "/shape")
    elif (size := count * SIZES[signature.datatype]) > files.max_tensor:
        text = f"shape {shape} of {signature.datatype} has {size} bytes; {LIMIT_TEXT.format(limit=files.max_tensor)}"
        raise InvalidTensor(text, "/shape")
    return Tensor(signature.name, signature.datatype, shape, UrlContent(url))
