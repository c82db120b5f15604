"""A collector of traces: OTLP over HTTP, protobuf from our services and JSON from Triton."""

import json
from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from deploy.local.ports import HOST, free_ports
from tests.acceptance.listening import Listener, Received
from tests.acceptance.waiting import eventually


class Kind(IntEnum):
    """As numbered in OTLP."""

    UNSPECIFIED = 0
    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


@dataclass(frozen=True)
class Span:
    """Ids in hexadecimal; `parent` is empty for a root."""

    name: str
    kind: Kind
    trace: str
    id: str
    parent: str


class Collector:
    def __init__(self) -> None:
        self.spans: list[Span] = []
        port = free_ports(1)[0]
        self.url = f"http://{HOST}:{port}"
        self.listener = Listener(self.take, port)

    def close(self) -> None:
        self.listener.close()

    def take(self, request: Received) -> int:
        if request.path != "/v1/traces":
            return HTTPStatus.NOT_FOUND
        is_json = request.headers["content-type"].startswith("application/json")
        self.spans += read_json(request.body) if is_json else read_protobuf(request.body)
        return HTTPStatus.OK

    def trace(self, trace_id: str) -> list[Span]:
        return [span for span in self.spans if span.trace == trace_id]

    async def wait(self, trace_id: str, names: set[str]) -> list[Span]:
        """The spans of a trace, once there is one of each name."""

        async def look() -> list[Span] | None:
            spans = self.trace(trace_id)
            return spans if names <= {span.name for span in spans} else None

        return await eventually(look, f"the trace {trace_id} has {names}")


def read_protobuf(body: bytes) -> list[Span]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        Span(span.name, Kind(span.kind), span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def read_json(body: bytes) -> list[Span]:
    return [
        Span(span["name"], Kind(span["kind"]), span["traceId"], span["spanId"], span.get("parentSpanId", ""))
        for resource in json.loads(body)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
