"""Checks of values against the schemas of the OpenAPI document."""

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from services.gateway.openapi.references import PREFIX


def list_operations(document: dict[str, Any], *, webhooks: bool = True) -> Iterator[dict[str, Any]]:
    """Yield the calls, and the webhooks unless they are left out."""
    for methods in [*document["paths"].values(), *(document["webhooks"].values() if webhooks else ())]:
        yield from methods.values()


def walk(part: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object of a document with its place, but for what examples show."""
    match part:
        case dict():
            yield place, part
            for name, each in part.items():
                if name not in ("example", "examples"):
                    yield from walk(each, f"{place}/{name}")
        case list():
            for index, each in enumerate(part):
                yield from walk(each, f"{place}/{index}")


def check_value(document: dict[str, Any], schema: dict[str, Any], value: object) -> None:
    """Raise ValidationError if a value does not fit a schema, or has a field that the schema does not list."""
    schemas = {name: close(each) for name, each in document["components"]["schemas"].items()}
    Draft202012Validator(schema | {"components": {"schemas": schemas}}).validate(value)


def close(schema: dict[str, Any]) -> dict[str, Any]:
    return schema | {"additionalProperties": False} if "properties" in schema else schema


def find_name(content: dict[str, Any]) -> str:
    """Return the name of the schema of a body, or nothing if it has none."""
    reference: str = content["schema"].get("$ref", "")
    return reference.removeprefix(PREFIX)
