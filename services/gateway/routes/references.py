"""What clients refer to: ids in paths, and cursors of lists that are in order of id."""

from uuid import UUID

from common import ids
from services.gateway.errors import FieldError, invalid, not_found


def parse_id(kind: ids.Kind, text: str) -> UUID:
    """Raises Problem (404): what has no such id is not there either."""
    found = ids.parse(kind, text)
    if found is None:
        raise not_found(kind.name.lower())
    return found


def parse_cursor(kind: ids.Kind, cursor: str | None) -> UUID | None:
    """The last of the page before; raises Problem (422)."""
    found = ids.parse(kind, cursor) if cursor else None
    if cursor and found is None:
        raise invalid(FieldError("cursor", "is none of ours"))
    return found
