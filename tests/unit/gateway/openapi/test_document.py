"""The OpenAPI document describes everything, and its examples have the types that it promises."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from common.event_types import EVENT_TYPES
from services.gateway.batches.items import LINES
from services.gateway.commands.openapi import build_unconnected
from services.gateway.openapi.answer_examples import ANSWERS
from services.gateway.openapi.document import describe
from services.gateway.openapi.examples import REQUESTS
from services.gateway.openapi.references import PREFIX, find_names
from tests.support.api.openapi_schemas import check_value, find_name, list_operations, walk

HAS_PATTERN = re.compile(r"(id|url|ids|.*_(id|url)|batch|.*-key|location|events|types)")
OWN = {"InferRequest.id", "InputMessage.id"}  # any text of the client
CLOSED = ("enum", "pattern", "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


@pytest.fixture(scope="module")
async def document() -> dict[str, Any]:
    return describe(await build_unconnected())


def list_fields(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field and parameter, however deep, with its place."""
    for place, part in walk(document):
        name = place.removeprefix("/components/schemas/")
        for field, shape in part.get("properties", {}).items() if place.rpartition("/")[2] != "properties" else ():
            yield f"{name}.{field}", shape
        for parameter in part.get("parameters", []) if isinstance(part.get("parameters"), list) else ():
            yield f"{part['operationId']}.{parameter['name']}", parameter["schema"] | parameter


async def test_every_field_and_parameter_is_described(document: dict[str, Any]) -> None:
    fields = dict(list_fields(document))
    assert len(fields) > 300
    assert [name for name, shape in fields.items() if not shape.get("description")] == []


async def test_every_call_schema_and_tag_is_described(document: dict[str, Any]) -> None:
    for operation in list_operations(document):
        assert operation["summary"], operation["operationId"]
        assert operation.get("description"), operation["operationId"]
    schemas = document["components"]["schemas"]
    generated = "^.*\\(.*\\)$"  # msgspec writes the signature of a class without a docstring
    assert [name for name, each in schemas.items() if re.match(generated, each.get("description", "()"))] == []


async def test_every_array_says_what_it_has(document: dict[str, Any]) -> None:
    arrays = [(place, part) for place, part in walk(document) if part.get("type") == "array"]
    assert len(arrays) > 30
    assert [place for place, part in arrays if "items" not in part] == []


async def test_no_parameter_is_nullable(document: dict[str, Any]) -> None:
    """A URL or a header is text, which has no null."""
    parameters = [each for operation in list_operations(document) for each in operation.get("parameters", [])]
    assert [each["name"] for each in parameters if "null" in str(each["schema"])] == []
    in_path = [each for each in parameters if each["in"] == "path"]
    assert len(in_path) > 20
    assert {each["required"] for each in in_path} == {True}


async def test_ids_urls_and_keys_of_requests_have_patterns(document: dict[str, Any]) -> None:
    sent, operations = find_sent(document), {each["operationId"] for each in list_operations(document)}
    fields = {name: shape for name, shape in list_fields(document) if name.partition(".")[0] in sent | operations}
    named = [name for name in fields.keys() - OWN if HAS_PATTERN.fullmatch(name.rpartition(".")[2].lower())]
    assert len(named) > 40
    assert [name for name in named if not has_pattern(fields[name])] == []


def find_sent(document: dict[str, Any]) -> set[str]:
    """Return the names of the schemas that requests have."""
    requests = [[each.get("requestBody"), each["parameters"]] for each in list_calls(document)]
    return find_names(requests, document["components"]["schemas"])


def list_calls(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"parameters": []} | each for each in list_operations(document, webhooks=False)]


async def test_answers_and_webhooks_promise_no_closed_forms(document: dict[str, Any]) -> None:
    """A generated client would refuse what a later release adds: a status, a longer text, another id."""
    schemas, sent = document["components"]["schemas"], find_sent(document)
    answers = {name: schema for name, schema in schemas.items() if name not in sent}
    parts = [answers, document["webhooks"], [each["responses"] for each in list_calls(document)]]
    assert find_names(parts, schemas) == answers.keys()
    found = [(place, word) for place, part in walk(parts) for word in CLOSED if word in part]
    assert found == []
    assert answers["JobView"]["properties"]["priority"]["x-extensible-enum"] == schemas["Priority"]["enum"]


async def test_cursors_and_positions_are_opaque(document: dict[str, Any]) -> None:
    names = ("cursor", "after", "Last-Event-ID")
    found = [each for call in list_calls(document) for each in call["parameters"] if each["name"] in names]
    assert len(found) > 10
    assert {frozenset(each["schema"]) for each in found} == {frozenset({"type", "description"})}


def has_pattern(shape: dict[str, Any]) -> bool:
    """Return whether the texts that fit have a pattern. Null and objects need none."""
    kinds = [*shape.get("anyOf", [shape]), shape.get("items", {})]
    texts = [each for each in kinds if each.get("type") == "string"]
    return all("pattern" in each for each in texts)


async def test_every_json_answer_has_an_example_that_fits_its_schema(document: dict[str, Any]) -> None:
    used = set()
    for operation in list_operations(document, webhooks=False):
        for status, answer in operation["responses"].items():
            content = answer.get("content", {}).get("application/json", {"schema": {}})
            if status < "400" and content["schema"].keys() & {"$ref", "oneOf"}:
                check_value(document, content["schema"], content["example"])
                used |= {find_name(content), f"{operation['operationId']} {status}"} & ANSWERS.keys()
    assert used == ANSWERS.keys()


async def test_the_lines_of_results_have_an_example_that_fits(document: dict[str, Any]) -> None:
    content = document["paths"]["/v1/batches/{batch_id}/results"]["get"]["responses"]["200"]["content"]
    assert list(content) == [LINES[0]]
    lines = content[LINES[0]]["example"].splitlines()
    check_value(document, content[LINES[0]]["schema"]["contentSchema"], [json.loads(line) for line in lines])
    assert [json.loads(line)["error"] is None for line in lines] == [True, False]


async def test_jobs_of_a_batch_leave_what_is_missing_to_its_defaults(document: dict[str, Any]) -> None:
    """A generated client sends the defaults of a schema, which would replace those of the batch."""
    schemas = document["components"]["schemas"]
    assert schemas["BatchJob"]["required"] == ["inputs"]
    assert [name for name, shape in schemas["BatchJob"]["properties"].items() if "default" in shape] == []
    assert schemas["SubmitJob"]["properties"]["priority"]["default"] == "normal"


FORMS = {"upload_file", "create_openai_file"}  # calls whose bodies are no JSON


async def test_every_body_has_examples_that_fit_its_schema(document: dict[str, Any]) -> None:
    operations = [each for each in list_operations(document, webhooks=False) if "requestBody" in each]
    contents = {each["operationId"]: each["requestBody"]["content"] for each in operations}
    bodies = {name: content["application/json"] for name, content in contents.items() if name not in FORMS}
    assert bodies.keys() == REQUESTS.keys()
    for name, content in bodies.items():
        assert list(content["examples"]) == list(REQUESTS[name])
        for example in content["examples"].values():
            check_value(document, content["schema"], example["value"])


async def test_the_first_answer_follows_from_the_first_request(document: dict[str, Any]) -> None:
    for operation in list_operations(document, webhooks=False):
        request = next(iter(REQUESTS.get(operation["operationId"], {}).values()), None)
        if isinstance(request, dict):
            answers = [each for status, each in sorted(operation["responses"].items()) if status < "300"]
            answer = answers[-1]["content"]["application/json"]["example"]
            same = request.keys() & answer.keys()
            assert {key: request[key] for key in same} == {key: answer[key] for key in same}, operation["operationId"]


async def test_every_webhook_has_a_payload_with_an_example_that_fits(document: dict[str, Any]) -> None:
    assert tuple(document["webhooks"]) == (*EVENT_TYPES, "openai")
    for event_type, methods in document["webhooks"].items():
        content = methods["post"]["requestBody"]["content"]["application/json"]
        assert content["example"]["type"] == ("response.completed" if event_type == "openai" else event_type)
        check_value(document, content["schema"], content["example"])
        payload = document["components"]["schemas"][find_name(content)]["properties"]
        assert payload["data"]["$ref"].startswith(PREFIX)
        names = {each["name"] for each in methods["post"]["parameters"]}
        assert names == {"webhook-id", "webhook-timestamp", "webhook-signature", "traceparent"}


async def test_calls_of_the_protocol_have_its_errors_only(document: dict[str, Any]) -> None:
    """Litestar adds an error of its own form to each call with parameters, which nothing answers."""
    schemas: dict[str, set[str]] = {"v1": set(), "v2": set(), "openai": set()}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if status >= "400" and (root := path.split("/")[1]) in schemas:
                    (content,) = answer["content"].items()
                    schemas[root].add(f"{content[0]} {find_name(content[1])}")
    assert schemas == {
        "v1": {"application/problem+json ProblemBody"},
        "v2": {"application/json ProtocolError"},
        "openai": {"application/json OpenAIError"},
    }
    metadata = document["paths"]["/v2/models/{model}"]["get"]["responses"]
    assert set(metadata) == {"200", "401", "403", "404", "429", "503"}
