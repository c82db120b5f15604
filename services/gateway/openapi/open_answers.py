"""Answers promise no closed list of values, because a generated client would refuse a value of a later release.

`x-extensible-enum` lists the values of this release, by the API guidelines of Zalando. Requests keep their enums.
"""

from collections.abc import Mapping
from typing import Any

from services.gateway.openapi.references import PREFIX, Json, find_names


def open_answers(document: Json) -> None:
    """Open the enums of answers and webhooks. Enums that requests have, too, are copied into the answers."""
    schemas = document["components"]["schemas"]
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    sent = find_names([[each.get("requestBody"), each.get("parameters")] for each in operations], schemas)
    shared = {PREFIX + name: schemas[name] for name in sent if "enum" in schemas[name]}
    for name in schemas.keys() - sent:
        schemas[name] = open_part(schemas[name], shared)
    for operation in operations:
        operation["responses"] = open_part(operation["responses"], shared)


def open_part(part: Any, shared: Mapping[str, Json]) -> Any:
    """Return a part of an answer with open enums. `shared` has those of requests by reference."""
    match part:
        case {"$ref": str(reference), **rest} if reference in shared:
            return open_part({"enum": shared[reference]["enum"], **rest}, shared)
        case {"enum": [*values], **rest}:
            return {"type": "string", "x-extensible-enum": values, **rest}
        case dict():
            return {name: open_part(each, shared) for name, each in part.items()}
        case list():
            return [open_part(each, shared) for each in part]
        case _:
            return part
