"""Reads spans from OTLP/HTTP requests, and draws their tree."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from deploy.local.demo.inbox import Posted

UNNAMED = "unknown"
FAILED = 2  # the status code of an error in OTLP
ROW = "{at:>9}  {took:>10}  {service:<20}  {name}"


@dataclass(frozen=True)
class Span:
    """Ids are hexadecimal, `parent` is empty for a root, times are nanoseconds since 1970."""

    trace: str
    id: str
    parent: str
    name: str
    service: str
    start: int
    end: int
    failed: bool


def read(posted: Posted) -> Iterator[Span]:
    """Return the spans of a request: protobuf from the services, JSON from Triton."""
    if posted.headers.get("content-type", "").startswith("application/json"):
        return _read_json(json.loads(posted.body))
    return _read_protobuf(ExportTraceServiceRequest.FromString(posted.body))


def draw(spans: Iterable[Span]) -> list[str]:
    """Return the tree as lines: children are below their parent, in the order of time.

    A span without its parent is shown as a root.
    """
    found = sorted(spans, key=lambda span: span.start)
    known = {span.id for span in found}
    children: dict[str, list[Span]] = {}
    for span in found:
        children.setdefault(span.parent if span.parent in known else "", []).append(span)
    first = found[0].start if found else 0
    lines = [ROW.format(at="at", took="took", service="service", name="span")]

    def grow(parent: str, depth: int) -> None:
        for span in children.get(parent, []):
            at, took = f"{(span.start - first) / 1e6:.1f} ms", f"{(span.end - span.start) / 1e6:.1f} ms"
            name = "  " * depth + span.name + (" (failed)" if span.failed else "")
            lines.append(ROW.format(at=at, took=took, service=span.service, name=name))
            grow(span.id, depth + 1)

    grow("", 0)
    return lines


def _read_protobuf(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        names = {each.key: each.value.string_value for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    name=span.name,
                    service=names.get("service.name", UNNAMED),
                    start=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                    failed=span.status.code == Status.STATUS_CODE_ERROR,
                )


def _read_json(request: Mapping[str, Any]) -> Iterator[Span]:
    for resource in request.get("resourceSpans", []):
        attributes = resource.get("resource", {}).get("attributes", [])
        names = {each["key"]: each["value"].get("stringValue", UNNAMED) for each in attributes}
        for scope in resource.get("scopeSpans", []):
            for span in scope.get("spans", []):
                yield Span(
                    trace=span["traceId"].lower(),
                    id=span["spanId"].lower(),
                    parent=span.get("parentSpanId", "").lower(),
                    name=span["name"],
                    service=names.get("service.name", UNNAMED),
                    start=int(span["startTimeUnixNano"]),
                    end=int(span["endTimeUnixNano"]),
                    failed=span.get("status", {}).get("code") == FAILED,
                )
