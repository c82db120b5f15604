"""Cursors of lists that are in order of time: a place in the list of one tenant and filter. Pure.

Jobs that are added meanwhile come before every place, so none is missed or shown twice.
"""

import base64
import binascii
import hashlib
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

SEAL = 8  # bytes: says which list it is of; nothing is gained by forging one
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Place(NamedTuple):
    """Between two rows, newest first: behind the row of this time and id."""

    created_at: datetime
    id: UUID


def seal(tenant_id: UUID, wanted: msgspec.Struct) -> bytes:
    return hashlib.sha256(tenant_id.bytes + msgspec.json.encode(wanted)).digest()[:SEAL]


def show_cursor(place: Place, tenant_id: UUID, wanted: msgspec.Struct) -> str:
    at = (place.created_at - EPOCH) // MICROSECOND
    raw = seal(tenant_id, wanted) + at.to_bytes(8) + place.id.bytes
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read_cursor(text: str, tenant_id: UUID, wanted: msgspec.Struct) -> Place | None:
    """The place, or None for what is no cursor of this tenant's and filter's."""
    try:
        raw = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        if len(raw) != SEAL + 8 + 16 or raw[:SEAL] != seal(tenant_id, wanted):
            return None
        at = EPOCH + int.from_bytes(raw[SEAL : SEAL + 8]) * MICROSECOND
    except (binascii.Error, ValueError, OverflowError):
        return None
    return Place(at, UUID(bytes=raw[SEAL + 8 :]))
