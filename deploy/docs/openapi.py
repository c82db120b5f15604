"""The API reference, from the OpenAPI document."""

import json
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus

from deploy.docs.examples import Call, show_example, show_json, write_curl
from deploy.docs.markdown import link, table
from deploy.docs.schemas import Json, find_names, name_schema, show_type, write_fields, write_schema
from deploy.local.settings import ROOT

COMMAND = (sys.executable, "-m", "services.gateway.commands.openapi")
# The page describes them once.
GENERAL = ("RateLimit", "RateLimit-Policy", "Retry-After", "WWW-Authenticate", "traceresponse")
DEFAULTS = {status.description for status in HTTPStatus}  # of Litestar, for an answer without a description


def read_document() -> Json:
    done = subprocess.run(COMMAND, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    document: Json = json.loads(done.stdout)
    return document


class Writer:
    """Writes the calls by tag, then the objects that no call has introduced."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._schemas: Json = document["components"]["schemas"]
        self._written: set[str] = set()  # schemas
        self._shown: dict[str, str] = {}  # examples, and the call that has shown each

    def write_calls(self) -> str:
        by_tag: dict[str, dict[str, list[Call]]] = {}
        for path, operations in self._document["paths"].items():
            for method, operation in operations.items():
                calls = by_tag.setdefault(operation["tags"][0], {})
                calls.setdefault(operation["summary"], []).append(Call(method.upper(), path, operation))
        parts = []
        for tag, calls in by_tag.items():
            same = (sorted(each, key=lambda call: len(call.path)) for each in calls.values())
            parts += [f"## {tag}", *(self._write_call(*each) for each in same)]
        return "\n\n".join(parts)

    def write_webhooks(self) -> str:
        """Return the events, the headers that they share, and an example of each body."""
        webhooks = {event_type: methods["post"] for event_type, methods in self._document["webhooks"].items()}
        rows = ((f"`{name}`", each["summary"], show_type(find_body(each)["schema"])) for name, each in webhooks.items())
        first = next(iter(webhooks.values()))
        headers = ((f"`{each['name']}`", each["description"]) for each in first["parameters"])
        answers = ((status, each["description"]) for status, each in first["responses"].items())
        parts = [table(("event", "when", "body"), rows), table(("header", "description"), headers)]
        parts.append(table(("answer", "effect"), answers))
        shown: dict[str, str] = {}  # one example of each schema
        for each in webhooks.values():
            shown.setdefault(find_body(each)["schema"]["$ref"], show_json(find_body(each)["example"]))
        parts += [f"```json\n{text}\n```" for text in shown.values()]
        return "\n\n".join(part.strip() for part in parts)

    def write_objects(self) -> str:
        bodies = [each.get("requestBody") for path in self._document["paths"].values() for each in path.values()]
        sent = find_names(bodies, self._schemas)
        used = [self._document["paths"], self._document["webhooks"]]
        names = sorted(find_names(used, self._schemas) - self._written)
        return "\n\n".join(write_schema("###", name, self._schemas[name], sent=name in sent) for name in names)

    def _write_call(self, call: Call, *others: Call) -> str:
        """Return the section of a call. `others` are the same call on longer paths."""
        operation = (call, *others)[-1].operation
        paths = " and ".join(f"`{each.method} {each.path}`" for each in (call, *others))
        parts = [f"### {operation['summary']}", f"{paths} · {show_access(operation['security'])}"]
        parts.append(operation.get("description", ""))
        if parameters := operation.get("parameters"):
            parts.append(table(("parameter", "in", "type", "description"), map(write_parameter, parameters)))
        parts += self._write_body(operation.get("requestBody"))
        parts.append(f"```sh\n{write_curl(call)}\n```")
        parts += self._write_answers(operation)
        return "\n\n".join(part.strip() for part in parts if part)

    def _write_body(self, body: Json | None) -> Iterator[str]:
        if body is None:
            return
        needed = "" if body.get("required") else ", optional"
        for media_type, content in body["content"].items():
            yield f"Body{needed}: {show_type(content['schema'], nullable=False)} as `{media_type}`."
        for kind in (content["schema"], *content["schema"].get("oneOf", [])):
            name = name_schema(kind.get("$ref", ""))
            if name and name not in self._written:
                self._written.add(name)
                yield write_schema("####", name, self._schemas[name], sent=True)
            if "properties" in kind:
                yield write_fields(kind, sent=True)

    def _write_answers(self, operation: Json) -> Iterator[str]:
        responses: Json = operation["responses"]
        for status, answer in sorted(responses.items()):
            if status < "400":
                yield write_answer(status, answer)
                yield from self._write_examples(operation["summary"], answer)
        if errors := sorted(status for status in responses if status >= "400"):
            yield f"Errors: {', '.join(errors)}. See [errors](errors.md#http-errors)."

    def _write_examples(self, call: str, answer: Json) -> Iterator[str]:
        for content in answer.get("content", {}).values():
            if "example" in content:
                text = show_example(content["example"])
                if (first := self._shown.setdefault(text, call)) == call:
                    yield f"```json\n{text}\n```"
                else:
                    yield f"{link(first)} shows an example."


def find_body(operation: Json) -> Json:
    """Return the content of a body in JSON."""
    content: Json = operation["requestBody"]["content"]["application/json"]
    return content


def show_access(security: list[Json]) -> str:
    scopes = [f"`{scope}`" for each in security for scope in each.get("key", [])]
    if not scopes:
        return "no key needed"
    return f"scope {scopes[0]}" + (", or a signed URL" if {} in security else "")


def write_parameter(parameter: Json) -> tuple[str, ...]:
    kind = show_type(parameter["schema"], nullable=False)
    if "default" in parameter["schema"]:
        kind += f", default `{parameter['schema']['default']}`"
    return f"`{parameter['name']}`", parameter["in"], kind, parameter.get("description", "")


def write_answer(status: str, answer: Json) -> str:
    kinds = [f"{show_type(each['schema'])} as `{name}`" for name, each in answer.get("content", {}).items()]
    text = f"**{status} {HTTPStatus(int(status)).phrase}**" + (f": {' or '.join(kinds)}." if kinds else ".")
    if answer["description"] not in DEFAULTS:
        text += f" {answer['description']}."
    if headers := [f"`{name}`" for name in answer.get("headers", {}) if name not in GENERAL]:
        text += f" Headers: {', '.join(headers)}."
    return text
