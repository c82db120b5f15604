"""The API reference, from the OpenAPI document."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import NamedTuple

from deploy.docs.markdown import link, table
from deploy.docs.schemas import Json, find_names, name_schema, show_type, write_fields, write_schema
from deploy.local.settings import ROOT

COMMAND = (sys.executable, "-m", "services.gateway.commands.openapi")
SERVER, KEY = "http://localhost:8080", "ch_dev"
# The page describes them once.
GENERAL = ("RateLimit", "RateLimit-Policy", "Retry-After", "WWW-Authenticate", "traceresponse")
DEFAULTS = {status.description for status in HTTPStatus}  # of Litestar, for an answer without a description
IN_PATH = {
    "job_id": "job_01m7ysshxnfbevq05b7h55g94z",
    "batch_id": "bat_01m7ystfs0e0x8s13t679vdnpf",
    "webhook_id": "whk_01m7ystrn7eevsede7n1a4q217",
    "recovery_id": "rec_01m7ysv7pnetqtwvzp4kk6hgz5",
    "delivery_id": "dlv_01m7ystyjreeattn4s7m92kk5s",
    "file_id": "file_01m0p2tmt8fa7bvqpx6v5ebrxj",
    "key_id": "key_01m0p2rz5zf3cs8fw8dnz7m5rv",
    "name": "echo",
    "model": "echo",
    "version": "1",
}
WIDTH = 100  # of examples


def read_document() -> Json:
    done = subprocess.run(COMMAND, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    document: Json = json.loads(done.stdout)
    return document


class Call(NamedTuple):
    method: str
    path: str
    operation: Json


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


def write_curl(call: Call) -> str:
    """Return a command that sends the first example of the body."""
    method, path, operation = call
    bodies = operation.get("requestBody", {}).get("content", {})
    is_file = next(iter(bodies), "") == "application/octet-stream"
    examples = {} if is_file else bodies.get("application/json", {}).get("examples", {})
    words = ["curl", "-s", SERVER + path.format(**IN_PATH)]
    if method != ("POST" if examples or is_file else "GET"):
        words += ["-X", method]
    lines = [shlex.join(words)]
    if any("key" in each for each in operation["security"]):
        lines.append(f"-H 'Authorization: Bearer {KEY}'")
    if examples:
        body = json.dumps(next(iter(examples.values()))["value"], ensure_ascii=False)
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(body)}"]
    if is_file:
        lines.append("--data-binary @FILE")
    return " \\\n  ".join(lines)


def show_example(example: object) -> str:
    """Return JSON, or lines of it."""
    if not isinstance(example, str):
        return show_json(example)
    return "\n".join(show_json(json.loads(line)) for line in example.splitlines())


def show_json(value: object, indent: str = "") -> str:
    """Return JSON that breaks only what is too long for a line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(flat) <= WIDTH:
        return flat
    deeper = indent + "  "
    match value:
        case dict():
            parts = [f"{json.dumps(name)}: {show_json(each, deeper)}" for name, each in value.items()]
            return f"{{\n{join(parts, deeper)}\n{indent}}}"
        case list():
            return f"[\n{join([show_json(each, deeper) for each in value], deeper)}\n{indent}]"
        case _:
            return flat


def join(parts: list[str], indent: str) -> str:
    return ",\n".join(indent + part for part in parts)
