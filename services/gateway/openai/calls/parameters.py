"""The types of parameters that several calls have, with OpenAI's bounds."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

Penalty = Annotated[float, Meta(ge=-2, le=2)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
TopP = Annotated[float, Meta(ge=0, le=1)]
Tokens = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Stop = str | Annotated[list[str], Meta(max_length=16)]
AnyObject = dict[str, Any]


def list_stops(stop: Stop | None) -> list[str]:
    """Return the texts of `stop`, which may be one text."""
    return [stop] if isinstance(stop, str) else stop or []


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to stream."""

    include_usage: bool | None = None
    """Whether a last chunk has the usage."""
    include_obfuscation: bool | None = None
    """Without effect: streams are not padded."""
