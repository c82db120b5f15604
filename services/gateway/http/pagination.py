"""Cursors of lists in order of time: a place in the list of one tenant and filter. Pure.

New jobs come before every place, so a page never misses or repeats one.
"""

import base64
import binascii
import hashlib
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

DIGEST_BYTES = 8  # identify the list; forging a cursor gains nothing
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Cursor(NamedTuple):
    """A place between two rows, newest first: after the row with this time and id."""

    created_at: datetime
    id: UUID


class ListFilter(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="list"):
    """The filter of a list, which its tag names. Each field has a default, and never another one.

    So an upgraded gateway and an older one, which lacks a field, take each other's cursors.
    """


def digest(tenant_id: UUID, filter_: ListFilter) -> bytes:
    return hashlib.sha256(tenant_id.bytes + msgspec.json.encode(filter_)).digest()[:DIGEST_BYTES]


def encode_cursor(cursor: Cursor, tenant_id: UUID, filter_: ListFilter) -> str:
    at = (cursor.created_at - EPOCH) // MICROSECOND
    return seal_cursor(at.to_bytes(8) + cursor.id.bytes, tenant_id, filter_)


def decode_cursor(text: str, tenant_id: UUID, filter_: ListFilter) -> Cursor | None:
    """Return the cursor; None for an invalid one, or one of a different tenant or filter."""
    raw = open_cursor(text, tenant_id, filter_)
    if raw is None or len(raw) != 8 + 16:
        return None
    try:
        at = EPOCH + int.from_bytes(raw[:8]) * MICROSECOND
    except OverflowError:
        return None
    return Cursor(at, UUID(bytes=raw[8:]))


def seal_cursor(raw: bytes, tenant_id: UUID, filter_: ListFilter) -> str:
    """Return a cursor with these bytes, bound to a tenant and a filter."""
    return base64.urlsafe_b64encode(digest(tenant_id, filter_) + raw).rstrip(b"=").decode()


def open_cursor(text: str, tenant_id: UUID, filter_: ListFilter) -> bytes | None:
    """Return the bytes of a cursor; None for an invalid one, or one of a different tenant or filter."""
    try:
        raw = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw[DIGEST_BYTES:] if raw[:DIGEST_BYTES] == digest(tenant_id, filter_) else None
