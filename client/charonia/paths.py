"""Paths of single resources. A name that would make the path of something else is refused before it is sent."""

from urllib.parse import quote

from charonia.errors import InvalidInput
from charonia.schemas import FieldProblem

PARAMETERS = {  # of the methods that take them; ids are opaque, names are not
    "batches": "batch_id",
    "deliveries": "delivery_id",
    "files": "file_id",
    "jobs": "job_id",
    "keys": "key_id",
    "models": "name",
    "pipelines": "name",
    "webhooks": "webhook_id",
}


def make_path(collection: str, name: str, suffix: str = "") -> str:
    """Return the path of a resource, given by its id or name. Raise InvalidInput for one that can't be in a path."""
    parameter = PARAMETERS[collection]
    if name in ("", ".", ".."):
        raise InvalidInput([FieldProblem(parameter, f"is {name!r}; it must not be empty, `.` or `..`")])
    if parameter == "name" and "/" in name:
        raise InvalidInput([FieldProblem(parameter, f"is {name!r}; it must have no `/`")])
    return f"/v1/{collection}/{quote(name, safe='')}{suffix}"
