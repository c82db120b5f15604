"""The generated sections of the API reference: those of its entry, and one for each resource."""

import posixpath
import re
from collections.abc import Iterator

from deploy.docs.examples import show_json
from deploy.docs.markdown import link, slugify, table
from deploy.docs.openapi import SHARED, Reference, read_document
from deploy.docs.resources import Writer, show_access
from deploy.docs.schemas import show_type, write_schema
from services.gateway.openapi.document import TAGS
from services.gateway.openapi.references import Json

ENTRY = "api.md"
COMMON = "common-errors"  # the anchor of a heading that people write on the entry
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(#([^)]+)\)")
WEBHOOK_EVENTS = "Webhook events"
# The sections, and the page of each.
OF_ENTRY = ("api-resources", "api-calls", "api-errors", "api-objects")
OF_RESOURCES = {f"resource-{slugify(tag)}": tag for tag in TAGS}
PAGES = dict.fromkeys(OF_ENTRY, ENTRY) | {name: f"api/{slugify(tag)}.md" for name, tag in OF_RESOURCES.items()}


def write_sections() -> dict[str, str]:
    """Return each section by its name. Links of one page to headings of another name that page."""
    reference = Reference(read_document())
    sections = dict(zip(OF_ENTRY, write_entry(reference), strict=True))
    sections |= {name: write_resource(reference, tag) for name, tag in OF_RESOURCES.items()}
    places = {COMMON: ENTRY}
    for name, text in sections.items():
        places |= {slugify(heading): PAGES[name] for heading in HEADING.findall(text)}
    return {name: resolve_links(text, PAGES[name], places) for name, text in sections.items()}


def resolve_links(text: str, page: str, places: dict[str, str]) -> str:
    def resolve(found: re.Match[str]) -> str:
        place = places[found[1]]
        return found[0] if place == page else f"]({find_path(place, page)}#{found[1]})"

    return LINK.sub(resolve, text)


def find_path(page: str, of: str) -> str:
    """Return the path to a page for links of another one."""
    return posixpath.relpath(page, posixpath.dirname(of))


def write_entry(reference: Reference) -> Iterator[str]:
    """Yield the resources, the calls, the errors that many calls have, and the objects that all resources share."""
    pages = {tag: f"[{tag}]({PAGES[name]})" for name, tag in OF_RESOURCES.items()}
    yield table(("resource", "what it is"), ((pages[tag], text) for tag, text in reference.resources.items()))
    yield "\n".join(write_index(reference, tag) for tag in TAGS if reference.group_calls(tag))
    groups = reference.common_errors.items()
    errors = ((status, name, meaning) for name, found in groups for status, meaning in found.items())
    yield table(("status", "calls", "meaning"), errors)
    shared = sorted(name for name, owner in reference.owners.items() if owner == SHARED)
    yield "\n\n".join(write_schema("###", name, reference.schemas[name], sent=False) for name in shared)


def write_index(reference: Reference, tag: str) -> str:
    """Return the calls of a resource as a table of links."""
    rows = []
    for calls in reference.group_calls(tag):
        paths = " and ".join(f"`{each.method} {each.path}`" for each in calls)
        operation = calls[-1].operation
        rows.append((link(operation["summary"]), paths, show_access(operation["security"])))
    return table((tag, "request", "access"), rows)


def write_resource(reference: Reference, tag: str) -> str:
    """Return the calls of a resource and its objects."""
    writer = Writer(reference, tag)
    begin = write_webhooks(reference.document["webhooks"]) if tag == WEBHOOK_EVENTS else writer.write_calls()
    return "\n\n".join(part for part in (begin, writer.write_objects()) if part)


def write_webhooks(document: Json) -> str:
    """Return the events, the headers that they share, and an example of each body."""
    webhooks = {event_type: methods["post"] for event_type, methods in document.items()}
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


def find_body(operation: Json) -> Json:
    """Return the content of a body in JSON."""
    content: Json = operation["requestBody"]["content"]["application/json"]
    return content
