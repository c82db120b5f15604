"""Keys of objects: `<tenant>/<file>/content`. Nothing in a key comes from a client."""

from uuid import UUID


def file_key(tenant: UUID, file_id: UUID) -> str:
    """Return the key of the content of a file."""
    return f"{tenant}/{file_id}/content"


def parse_file_key(key: str) -> tuple[UUID, UUID] | None:
    """Return the tenant and the id of the file that has its content there. Return None for any other key."""
    try:
        tenant, file_id, _ = key.split("/")
        parsed = UUID(tenant), UUID(file_id)
    except ValueError:
        return None
    return parsed if key == file_key(*parsed) else None
