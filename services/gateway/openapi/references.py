"""Which schemas a part of the OpenAPI document refers to."""

from typing import Any

PREFIX = "#/components/schemas/"

Json = dict[str, Any]


def find_names(part: object, schemas: Json) -> set[str]:
    """Return the names of the schemas that a part of the document refers to, directly or not."""
    found: set[str] = set()
    waiting = [part]
    while waiting:
        match waiting.pop():
            case {"$ref": str(reference)} if (name := name_schema(reference)) not in found:
                found.add(name)
                waiting.append(schemas[name])
            case dict() as each:
                waiting += each.values()
            case list() as each:
                waiting += each
    return found


def name_schema(reference: str) -> str:
    return reference.rpartition("/")[2]
