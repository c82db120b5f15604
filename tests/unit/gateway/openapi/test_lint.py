"""The OpenAPI document passes the rules of linters, without one: redocly and spectral would need Node.js.

The validator checks the structure, references, defaults and path parameters. The rest are the rules that both linters
recommend and the validator lacks.
"""

import re
from collections import Counter
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from services.gateway.commands.openapi import build_unconnected
from services.gateway.openapi.document import describe
from services.gateway.openapi.references import PREFIX
from tests.support.api.openapi_schemas import list_operations, walk

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}


@pytest.fixture(scope="module")
async def document() -> dict[str, Any]:
    return describe(await build_unconnected())


async def test_document_is_valid_openapi(document: dict[str, Any]) -> None:
    found = [
        f"{'/'.join(map(str, each.path))}: {each.message}" for each in OpenAPIV31SpecValidator(document).iter_errors()
    ]
    assert found == []
    assert document["openapi"].startswith("3.1")


async def test_operations_have_unique_ids_for_programs_and_known_tags(document: dict[str, Any]) -> None:
    operations = list(list_operations(document))
    names = Counter(each["operationId"] for each in operations)
    assert len(names) == len(operations)
    assert [name for name in names if not re.fullmatch("[a-z0-9_]+", name)] == []
    used = {tag for each in operations for tag in each["tags"]}
    assert used == {each["name"] for each in document["tags"]}
    assert all(each["description"] for each in document["tags"])


async def test_paths_are_plain_and_lead_to_one_call(document: dict[str, Any]) -> None:
    shapes = Counter(re.sub(r"\{\w+\}", "{}", path) for path in document["paths"])
    assert [shape for shape, count in shapes.items() if count > 1] == []
    assert [path for path in document["paths"] if path[1:].endswith("/") or "?" in path or "{}" in path] == []


async def test_parameters_are_unique_in_a_call(document: dict[str, Any]) -> None:
    for operation in list_operations(document):
        names = [(each["in"], each["name"].lower()) for each in operation.get("parameters", [])]
        assert len(names) == len(set(names)), operation["operationId"]


async def test_security_is_defined(document: dict[str, Any]) -> None:
    schemes = set(document["components"]["securitySchemes"])
    for operation in list_operations(document):
        assert {name for each in operation["security"] for name in each} <= schemes
        assert operation["security"], operation["operationId"]


async def test_every_component_is_used_and_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    used = {part["$ref"].removeprefix(PREFIX) for _, part in walk(document) if "$ref" in part}
    assert used == document["components"]["schemas"].keys()


async def test_enums_have_the_type_of_their_schema(document: dict[str, Any]) -> None:
    words = ("enum", "x-extensible-enum")
    enums = [(place, part, part[word]) for place, part in walk(document) for word in words if word in part]
    assert len(enums) > 30
    for place, part, values in enums:
        assert {type(each) for each in values} == {TYPES[part.get("type", "string")]}, place
        assert len(set(values)) == len(values), place


async def test_every_pattern_is_anchored_and_works_without_extensions_of_python(document: dict[str, Any]) -> None:
    """Generators check with the regular expressions of ECMAScript, which search."""
    patterns = {part["pattern"] for _, part in walk(document) if isinstance(part.get("pattern"), str)}
    assert len(patterns) > 15
    for pattern in patterns:
        assert pattern.startswith("^"), pattern
        assert not re.search(r"\\[AZz]|\(\?P|\(\?[a-z]", pattern), pattern


async def test_every_call_has_an_answer_for_success_and_calls_with_a_key_have_errors(document: dict[str, Any]) -> None:
    for operation in list_operations(document, webhooks=False):
        statuses = set(operation["responses"])
        assert any(status.startswith("2") for status in statuses), operation["operationId"]
        if any("key" in each for each in operation["security"]):
            assert {"401", "403", "429", "503"} <= statuses, operation["operationId"]
