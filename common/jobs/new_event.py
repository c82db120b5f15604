"""An event to record."""

from uuid import UUID

import msgspec


class NewEvent(msgspec.Struct, frozen=True):
    """An event to record, with its webhook body. `traceparent` is for its deliveries."""

    id: UUID
    type: str
    sequence: int
    body: bytes
    traceparent: str
