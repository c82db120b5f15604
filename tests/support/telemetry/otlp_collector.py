"""Trace collectors: OTLP over HTTP (protobuf from the services, JSON from Triton) and over gRPC."""

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import IntEnum
from http import HTTPStatus
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from deploy.local.processes.ports import HOST, free_ports
from tests.support.receivers.threaded_server import Listener, ReceivedRequest
from tests.support.waiting import eventually

Value = str | int | float | bool


class Kind(IntEnum):
    """Span kinds, numbered as in OTLP."""

    UNSPECIFIED = 0
    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


@dataclass(frozen=True)
class Span:
    """A span with hexadecimal ids. `parent` is empty for a root, and `links` are ids of traces.

    Times are in nanoseconds since 1970.
    """

    name: str
    kind: Kind
    trace: str
    id: str
    parent: str
    service: str
    start: int
    end: int
    failed: bool = False
    attributes: Mapping[str, Value] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


class Spans:
    """The spans collected so far."""

    url: str

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def trace(self, trace_id: str) -> list[Span]:
        return [span for span in self.spans if span.trace == trace_id]

    async def wait(self, trace_id: str, names: set[str]) -> list[Span]:
        """Return the spans of a trace once each of these names is among them."""

        async def poll() -> list[Span] | None:
            spans = self.trace(trace_id)
            return spans if names <= {span.name for span in spans} else None

        return await eventually(poll, f"the trace {trace_id} has {names}")


class Collector(Spans):
    """Collects over HTTP."""

    def __init__(self) -> None:
        super().__init__()
        port = free_ports(1)[0]
        self.url = f"http://{HOST}:{port}"
        self._listener = Listener(self._receive, port)

    def close(self) -> None:
        self._listener.close()

    def _receive(self, request: ReceivedRequest) -> int:
        if request.path != "/v1/traces":
            return HTTPStatus.NOT_FOUND
        is_json = request.headers["content-type"].startswith("application/json")
        self.spans += read_json(request.body) if is_json else read(ExportTraceServiceRequest.FromString(request.body))
        return HTTPStatus.OK


class GrpcCollector(Spans, TraceServiceServicer):
    """Collects over gRPC."""

    def __init__(self) -> None:
        super().__init__()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=1))
        add_TraceServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self.url = f"http://{HOST}:{self._server.add_insecure_port(f'{HOST}:0')}"
        self._server.start()

    def close(self) -> None:
        self._server.stop(0).wait()

    def Export(self, request: ExportTraceServiceRequest, context: object) -> ExportTraceServiceResponse:  # noqa: N802
        self.spans += read(request)
        return ExportTraceServiceResponse()


def read(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        service = str(read_attributes(resource.resource.attributes)["service.name"])
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    span.name,
                    Kind(span.kind),
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    service,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    failed=span.status.code == Status.STATUS_CODE_ERROR,
                    attributes=read_attributes(span.attributes),
                    links=tuple(link.trace_id.hex() for link in span.links),
                    events=tuple(event.name for event in span.events),
                )


def read_attributes(attributes: Iterable[KeyValue]) -> dict[str, Value]:
    """Return the attributes that have simple types."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value") for each in attributes}


def read_json(body: bytes) -> Iterator[Span]:
    """Yield the spans in an export of Triton's."""
    resources: list[Any] = json.loads(body)["resourceSpans"]
    for resource in resources:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                ids = span["traceId"], span["spanId"], span.get("parentSpanId", "")
                times = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
                yield Span(span["name"], Kind(span["kind"]), *ids, "triton", *times)
