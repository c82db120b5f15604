"""The inputs of a job, as clients send them and as the API shows them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from common.tensors import Datatype
from common.views.outputs import Elements

InputsOmitted = Literal["erased", "newer_format"]
# Inputs as JSON. Raw: they are rendered in pieces, and then get the URLs of files.
Inputs = Annotated[
    msgspec.Raw, Meta(extra_json_schema={"type": "array", "items": {"$ref": "#/components/schemas/Input"}})
]


class InputTensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An input tensor, as in the Open Inference Protocol."""

    name: str
    """The name of the input."""
    shape: list[Annotated[int, Meta(ge=0, le=2**63 - 1)]]
    """The size of each dimension."""
    datatype: Datatype
    """The type of each element. It must be the one that the model declares."""
    data: Any  # of a request under /v2 also bytes, as they came
    """The elements in row-major order, flat or nested. Or `{"base64"}` with raw bytes, `{"file"}`, or `{"url"}`."""


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """An input tensor. It has `data`, or the `file` or the `url` with its elements."""

    name: str
    """The name of the input."""
    datatype: Datatype
    """The type of each element."""
    shape: list[int]
    """The size of each dimension, with the batch dimension first."""
    data: Elements | UnsetType = UNSET
    """The elements in row-major order, flat. BYTES are text, or `{"base64"}` where they are not UTF-8."""
    file: str | UnsetType = UNSET
    """The file with the elements, raw and little-endian: one that the submit named, or one of a large input.

    One element of BYTES is the content itself. Of several, each follows its length in 4 bytes, little-endian.
    """
    download_url: str | UnsetType = UNSET
    """Where to download the file, while it exists. The URL needs no key, for 7 days."""
    url: str | UnsetType = UNSET
    """The `url` that the submit named, which each attempt reads: `https://…` without its query, or `s3://…`.

    The query is left out, because it may have a signature.
    """
    offset: int | UnsetType = UNSET
    """Where the content begins in the file or object: after the header of an .npy file, or after a length."""
    size: int | UnsetType = UNSET
    """The bytes of the content, from `offset` to the end of the file or object."""


class InputsView(msgspec.Struct, frozen=True, omit_defaults=True):
    """The inputs of a job, as it was submitted."""

    id: str
    """The id of the job."""
    inputs: Inputs | None
    """The inputs, in the order of the model's configuration; null if `inputs_omitted` says why."""
    inputs_omitted: InputsOmitted | UnsetType = UNSET
    """Why `inputs` is null: `erased`, or `newer_format` (only a later release of the gateway can read them)."""
