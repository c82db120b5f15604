"""Checks of values against the schemas of the OpenAPI document."""

from typing import Any

from jsonschema import Draft202012Validator

from services.gateway.openapi.document import PREFIX


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
