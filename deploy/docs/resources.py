"""The page of a resource: its calls, each with what it alone sends and returns, and its objects."""

from collections.abc import Iterator
from http import HTTPStatus

from deploy.docs.examples import show_example, write_curl
from deploy.docs.markdown import link, table
from deploy.docs.openapi import Call, Reference
from deploy.docs.schemas import show_type, write_fields, write_schema
from services.gateway.openapi.references import Json, name_schema

# The entry describes them once.
GENERAL = ("RateLimit", "RateLimit-Policy", "Retry-After", "WWW-Authenticate", "traceresponse")
DEFAULTS = {status.description for status in HTTPStatus}  # of Litestar, for an answer without a description


class Writer:
    """Writes the calls of a resource, then the objects that no call has introduced."""

    def __init__(self, reference: Reference, tag: str) -> None:
        self._reference = reference
        self._tag = tag
        self._schemas = reference.schemas
        self._written: set[str] = set()  # schemas
        self._shown: dict[str, str] = {}  # examples, and the call that has shown each

    def write_calls(self) -> str:
        return "\n\n".join(self._write_call(*each) for each in self._reference.group_calls(self._tag))

    def write_objects(self) -> str:
        own = {name for name, owner in self._reference.owners.items() if owner == self._tag}
        sections = [self._write_object(name) for name in sorted(own - self._written)]
        return "\n\n".join(["## Objects", *sections] if sections else [])

    def _write_object(self, name: str) -> str:
        return write_schema("###", name, self._schemas[name], sent=name in self._reference.sent)

    def _write_call(self, call: Call, *others: Call) -> str:
        """Return the section of a call. `others` are the same call on longer paths."""
        last = (call, *others)[-1]
        operation = last.operation
        paths = " and ".join(f"`{each.method} {each.path}`" for each in (call, *others))
        parts = [f"## {operation['summary']}", f"{paths} · {show_access(operation['security'])}"]
        parts.append(operation.get("description", ""))
        if parameters := operation.get("parameters"):
            parts.append(table(("parameter", "in", "type", "description"), map(write_parameter, parameters)))
        parts += self._write_body(operation.get("requestBody"))
        parts.append(f"```sh\n{write_curl(call)}\n```")
        parts += self._write_answers(operation)
        parts += self._write_errors(last)
        return "\n\n".join(part.strip() for part in parts if part)

    def _write_body(self, body: Json | None) -> Iterator[str]:
        if body is None:
            return
        needed = "" if body.get("required") else ", optional"
        for media_type, content in body["content"].items():
            yield f"Body{needed}: {show_type(content['schema'], nullable=False)} as `{media_type}`."
        for content in body["content"].values():
            for kind in (content["schema"], *content["schema"].get("oneOf", [])):
                yield from self._write_kind(kind)

    def _write_kind(self, kind: Json) -> Iterator[str]:
        """Yield the section of a body, where it is sent first."""
        name = name_schema(kind.get("$ref", ""))
        if self._reference.owners.get(name) == self._tag and name not in self._written:
            self._written.add(name)
            yield self._write_object(name)
        if "properties" in kind:
            yield write_fields(kind, sent=True)

    def _write_answers(self, operation: Json) -> Iterator[str]:
        for status, answer in sorted(operation["responses"].items()):
            if status < "400":
                yield write_answer(status, answer)
                yield from self._write_examples(operation["summary"], answer)

    def _write_errors(self, call: Call) -> Iterator[str]:
        responses = call.operation["responses"]
        if own := self._reference.list_own_errors(call):
            lines = (f"- **{status}**: {show_text(responses[status])}" for status in own)
            yield "Errors besides the [common errors](#common-errors):\n\n" + "\n".join(lines)

    def _write_examples(self, call: str, answer: Json) -> Iterator[str]:
        for content in answer.get("content", {}).values():
            if "example" in content:
                text = show_example(content["example"])
                if (first := self._shown.setdefault(text, call)) == call:
                    yield f"```json\n{text}\n```"
                else:
                    yield f"{link(first)} shows an example."


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
    return f"{text} {show_text(answer)}".strip()


def show_text(answer: Json) -> str:
    """Return the description of an answer, and its headers."""
    parts = [f"{answer['description']}."] if answer["description"] not in DEFAULTS else []
    if headers := [f"`{name}`" for name in answer.get("headers", {}) if name not in GENERAL]:
        parts.append(f"Headers: {', '.join(headers)}.")
    return " ".join(parts)
