"""Keys of objects: `<tenant>/<job or upload>/<name>`. Nothing in a key comes from a client."""

import re
from uuid import UUID

FILE_CONTENT = "content"  # the name of the object of a file
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")


def make_key(tenant: UUID, owner: UUID, name: str) -> str:
    """Return the key of an object. `owner` is a job or an upload; `name` is the code's own, such as `inputs`."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of an object: expected up to 64 of a-z, 0-9, and . _ - inside")
    return f"{owner_prefix(tenant, owner)}/{name}"


def file_key(tenant: UUID, file_id: UUID) -> str:
    """Return the key of the content of a file."""
    return make_key(tenant, file_id, FILE_CONTENT)


def parse_file_key(key: str) -> tuple[UUID, UUID] | None:
    """Return the tenant and the id of the file that has its content there. Return None for any other key."""
    try:
        tenant, file_id, _ = key.split("/")
        parsed = UUID(tenant), UUID(file_id)
    except ValueError:
        return None
    return parsed if key == file_key(*parsed) else None


def owner_prefix(tenant: UUID, owner: UUID) -> str:
    """Return the prefix of all objects of a job or of an upload."""
    return f"{tenant}/{owner}"
