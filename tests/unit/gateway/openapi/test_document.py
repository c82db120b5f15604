"""The OpenAPI document describes everything, and its examples have the types that it promises."""

from collections.abc import Iterator
from typing import Any

import pytest

from services.gateway.commands.openapi import build_unconnected
from services.gateway.openapi.answer_examples import ANSWERS
from services.gateway.openapi.descriptions import FIELDS
from services.gateway.openapi.document import describe
from services.gateway.openapi.examples import REQUESTS
from tests.support.openapi_schemas import check_value, find_name


@pytest.fixture
async def document() -> dict[str, Any]:
    return describe(await build_unconnected())


def list_operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for operations in document["paths"].values():
        yield from operations.values()


def list_fields(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, schema in document["components"]["schemas"].items():
        for field, shape in schema.get("properties", {}).items():
            yield f"{name}.{field}", shape


async def test_every_field_is_described(document: dict[str, Any]) -> None:
    assert [name for name, shape in list_fields(document) if not shape.get("description")] == []


async def test_every_parameter_and_call_is_described(document: dict[str, Any]) -> None:
    for operation in list_operations(document):
        assert operation["summary"], operation["operationId"]
        for parameter in operation.get("parameters", []):
            assert parameter.get("description"), f"{operation['operationId']} {parameter['name']}"


async def test_no_description_is_left_over(document: dict[str, Any]) -> None:
    fields = {name for name, _ in list_fields(document)}
    names = {field.partition(".")[2] for field in fields}
    names |= {each["name"] for operation in list_operations(document) for each in operation.get("parameters", [])}
    assert set(FIELDS) - fields - names == set()


async def test_every_json_answer_has_an_example_that_fits_its_schema(document: dict[str, Any]) -> None:
    used = set()
    for operation in list_operations(document):
        for status, answer in operation["responses"].items():
            content = answer.get("content", {}).get("application/json", {"schema": {}})
            if status < "400" and (name := find_name(content)):
                check_value(document, content["schema"], content["example"])
                used |= {name, f"{operation['operationId']} {status}"} & ANSWERS.keys()
    assert used == ANSWERS.keys()


async def test_every_body_has_an_example(document: dict[str, Any]) -> None:
    bodies = {each["operationId"]: each["requestBody"] for each in list_operations(document) if "requestBody" in each}
    assert bodies.keys() == REQUESTS.keys()
    for name, body in bodies.items():
        assert list(body["content"]["application/json"]["examples"]) == list(REQUESTS[name])


async def test_the_first_answer_follows_from_the_first_request(document: dict[str, Any]) -> None:
    for operation in list_operations(document):
        request = next(iter(REQUESTS.get(operation["operationId"], {}).values()), None)
        if isinstance(request, dict):
            answers = [each for status, each in sorted(operation["responses"].items()) if status < "300"]
            answer = answers[-1]["content"]["application/json"]["example"]
            same = request.keys() & answer.keys()
            assert {key: request[key] for key in same} == {key: answer[key] for key in same}, operation["operationId"]
