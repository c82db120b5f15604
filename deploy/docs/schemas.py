"""JSON schemas of the OpenAPI document, as types and tables."""

import json
from collections.abc import Iterator

from deploy.docs.markdown import link, table
from services.gateway.openapi.references import Json, name_schema

RANGES = {
    ("minimum", "maximum"): "",
    ("minLength", "maxLength"): " characters",
    ("minItems", "maxItems"): " items",
    ("minProperties", "maxProperties"): " entries",
}
NULL = {"type": "null"}


def write_schema(heading: str, name: str, schema: Json, *, sent: bool) -> str:
    """Return the section of a schema. Clients need to know the defaults of what is `sent` by them."""
    parts = [f"{heading} {name}", " ".join(schema.get("description", "").split())]
    if "enum" in schema or "x-extensible-enum" in schema:
        parts.append(f"One of {show_type(schema)}.")
    if "properties" in schema:
        parts.append(write_fields(schema, sent=sent))
    return "\n\n".join(part.strip() for part in parts if part)


def write_fields(schema: Json, *, sent: bool) -> str:
    required = schema.get("required", [])
    fields = schema["properties"].items()
    head = ("field", "type", "default", "description") if sent else ("field", "type", "description")
    return table(head, (write_field(name, shape, name in required, sent=sent) for name, shape in fields))


def write_field(name: str, shape: Json, required: bool, *, sent: bool) -> tuple[str, ...]:
    description, kind = " ".join(shape.get("description", "").split()), show_type(shape)
    if not sent:
        return f"`{name}`", kind if required else f"{kind}, may be absent", description
    default = f"`{json.dumps(shape['default'])}`" if shape.get("default") is not None else ""
    return f"`{name}`", kind, "required" if required else default, description


def show_type(shape: Json, *, nullable: bool = True) -> str:
    """Return a type with its bounds, and a link if it has a name."""
    if "$ref" in shape:
        return link(name_schema(shape["$ref"]))
    if choices := shape.get("anyOf") or shape.get("oneOf"):
        inherited = {key: value for key, value in shape.items() if key not in ("anyOf", "oneOf")}
        kinds = list(dict.fromkeys(show_type(inherited | each) for each in choices if each != NULL))
        return " or ".join([*kinds, "null"] if nullable and NULL in choices else kinds)
    if values := shape.get("enum") or shape.get("x-extensible-enum"):
        return ", ".join(f"`{each}`" for each in values) + ("" if "enum" in shape else ", …")
    bounds = "; ".join(show_bounds(shape))
    return show_kind(shape) + (f" ({bounds})" if bounds else "")


def show_kind(shape: Json) -> str:
    if shape.get("format") == "date-time":
        return "time"
    if "contentSchema" in shape:
        return f"lines of {show_type(shape['contentSchema']['items'])}"
    if shape.get("type") == "array" and shape.get("items"):
        return f"list of {show_type(shape['items'])}"
    if shape.get("type") == "object" and isinstance(shape.get("additionalProperties"), dict):
        return f"object of {show_type(shape['additionalProperties'])}"
    return str(shape.get("type", "any"))


def show_bounds(shape: Json) -> Iterator[str]:
    exclusive = "exclusiveMinimum" in shape
    shape = {"minimum": shape["exclusiveMinimum"], **shape} if exclusive else shape
    for (low, high), unit in RANGES.items():
        over = "over " if exclusive and low == "minimum" else ""
        if low in shape and high in shape:
            yield f"{over}{show_number(shape[low])} to {show_number(shape[high])}{unit}"
        elif low in shape:
            yield f"{over or 'at least '}{show_number(shape[low])}{unit}"
        elif high in shape:
            yield f"at most {show_number(shape[high])}{unit}"


def show_number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
