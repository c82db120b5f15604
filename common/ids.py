"""Typed ids that sort by time.

In the database they are UUIDv7 (RFC 9562). Outside they are TypeIDs, such as `job_01h455vb4pex5vsknk084sn02q`.
"""

import os
import time
from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from msgspec import Meta

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, as in TypeID 0.3
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_LENGTH = 26


class Kind(StrEnum):
    """The prefix of an id outside the database."""

    TENANT = "tnt"
    KEY = "key"
    JOB = "job"
    EVENT = "evt"
    WEBHOOK = "whk"
    DELIVERY = "dlv"
    RECOVERY = "rec"
    BATCH = "batch"
    AUDIT_ENTRY = "aud"
    FILE = "file"


def make_pattern(prefix: str) -> str:
    """Return a regular expression for the ids with a prefix, such as that of a kind."""
    return f"^{prefix}_[0-7][0-9a-hjkmnp-tv-z]{{{_LENGTH - 1}}}$"


# Ids in the bodies of requests. The pattern is only documented: each call has its own answer to a wrong id.
JobId = Annotated[str, Meta(extra_json_schema={"pattern": make_pattern(Kind.JOB)})]


def new() -> UUID:
    """Return a UUIDv7. Ids of the same millisecond have no order."""
    stamp = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    high, low = random >> 64 & 0xFFF, random & (1 << 62) - 1
    return UUID(int=stamp << 80 | 7 << 76 | high << 64 | 2 << 62 | low)


def earliest(at: datetime) -> UUID:
    """Return the least UUIDv7 of a time. No id made then or later sorts before it."""
    stamp = max(0, int(at.timestamp() * 1000))
    return UUID(int=stamp << 80 | 7 << 76 | 2 << 62)


def encode(kind: Kind, value: UUID) -> str:
    """Return the TypeID of a UUID."""
    number = value.int
    return f"{kind}_" + "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def parse(kind: Kind, text: str) -> UUID | None:
    """Return the UUID of a TypeID, or None if the text is not an id of this kind."""
    prefix, separator, suffix = text.rpartition("_")
    if not separator or prefix != kind or len(suffix) != _LENGTH or suffix[0] > "7":
        return None
    number = 0
    for character in suffix:
        value = _VALUES.get(character)
        if value is None:
            return None
        number = number << 5 | value
    return UUID(int=number)
