"""One trace for each job, in W3C trace context.

Tracing is off, and costs nothing, unless an OTEL_* variable sets an endpoint.
"""

import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import Token

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from common.errors import SettingsError

_ODD_DIGITS = frozenset("13579bdf")  # the last digit of the flags, if sampled
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
SHUTDOWN_SECONDS = 5.0
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER = "OTEL_TRACES_EXPORTER"

# A function is called only if tracing is on.
Attributes = Mapping[str, str | int] | Callable[[], Mapping[str, str | int]]

tracer = trace.get_tracer("charonia")
_WITHOUT_SDK = trace.get_tracer_provider()


def configure(service: str, environ: Mapping[str, str] = os.environ) -> None:
    """Start the SDK if an OTLP endpoint is set. Without it, a span does nothing but pass its parent on.

    Raise SettingsError if a variable is wrong.
    """
    if not is_on(environ):
        return
    from common.telemetry.otel_sdk import open_provider  # imported here, so that it costs nothing without tracing

    trace.set_tracer_provider(open_provider(environ.get("OTEL_SERVICE_NAME", f"charonia-{service}"), environ))


def is_on(environ: Mapping[str, str]) -> bool:
    """Return whether the variables ask for spans to be exported. Raise SettingsError if one is wrong."""
    if not any(environ.get(name) for name in _ENDPOINTS) or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environ.get(_EXPORTER) or "otlp"
    if exporter not in ("otlp", "none"):
        raise SettingsError(f"{_EXPORTER} is wrong: expected otlp or none")
    return exporter == "otlp"


def is_off() -> bool:
    """Return whether this process has not started the SDK."""
    return trace.get_tracer_provider() is _WITHOUT_SDK


def shutdown() -> None:
    """Export the spans that still wait, for at most SHUTDOWN_SECONDS."""
    provider = trace.get_tracer_provider()
    if stop := getattr(provider, "shutdown", None):
        sending = threading.Thread(target=stop, name="last-spans", daemon=True)
        sending.start()
        sending.join(SHUTDOWN_SECONDS)


def parse(traceparent: str | None) -> SpanContext | None:
    """Return the span that a traceparent names. Return None for a missing or invalid one, as W3C requires."""
    match = _TRACEPARENT.fullmatch(traceparent or "")
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest):  # later versions may have more fields
        return None
    found = SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))
    return found if found.is_valid else None


def to_context(traceparent: str | None) -> Context:
    """Return the context for a child of the traceparent, or for a root span."""
    parent = parse(traceparent)
    return trace.set_span_in_context(NonRecordingSpan(parent), Context()) if parent else Context()


def continue_trace(own: str, message: str | None) -> tuple[Context, list[Link]]:
    """Return the context and the links of a span that a message causes in the trace `own`.

    If the message belongs to that trace, its span is the parent. Otherwise it is linked.
    """
    sent = parse(message)
    if message is None or sent is None:
        return to_context(own), []
    if trace_id(message) == trace_id(own):
        return to_context(message), []
    return to_context(own), [Link(sent)]


def start_span(
    name: str,
    context: Context | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Attributes | None = None,
    links: Sequence[Link] = (),
) -> AbstractContextManager[Span]:
    """Return a new span for a `with` block, as `use_span` does. Without tracing, return the parent."""
    if is_off():
        return _ParentSpan(context)
    return use_span(tracer.start_span(name, context, kind, attributes() if callable(attributes) else attributes, links))


class _ParentSpan(AbstractContextManager[Span]):
    """Makes the parent the current span. It does what a span without the SDK does, at half the cost."""

    def __init__(self, context: Context | None) -> None:
        self._context = context
        self._token: Token[Context] | None = None

    def __enter__(self) -> Span:
        if self._context is not None:
            self._token = attach(self._context)
        return trace.get_current_span()

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            detach(self._token)


@contextmanager
def use_span(span: Span) -> Iterator[Span]:
    """Make a span the current one. End it with the block.

    An exception marks it as failed, by its `error_type` or class. The SDK would record its text, which may quote a
    payload.
    """
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span
        except Exception as error:
            record_error(span, getattr(error, "error_type", type(error).__name__))
            raise


def record_error(span: Span, kind: str) -> None:
    """Mark a span as failed. `kind` is one of few values: an error code or a class."""
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, kind))


def add_link(traceparent: str) -> None:
    """Link the current span to another trace."""
    span, other = trace.get_current_span(), parse(traceparent)
    if other is not None and other.trace_id != span.get_span_context().trace_id:
        span.add_link(other)


def start_linked_span(name: str, traceparent: str, attributes: Mapping[str, str]) -> str:
    """Start and end a root span that is linked to `traceparent`, and sampled like it. Return its traceparent."""
    origin = parse(traceparent)
    if origin is None or not origin.trace_flags.sampled:
        return new_traceparent()
    span = tracer.start_span(name, Context(), attributes=attributes, links=[Link(origin)])
    span.end()
    return to_traceparent(span)


def to_traceparent(span: Span) -> str:
    """Return the traceparent of a span. Return a new unsampled one for an invalid span."""
    context = span.get_span_context()
    if not context.is_valid:
        return new_traceparent()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def new_traceparent() -> str:
    """Return a traceparent that is not sampled."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"


def trace_id(traceparent: str) -> str:
    """Return the trace id."""
    return traceparent[3:35]


def is_sampled(traceparent: str) -> bool:
    """Return whether the trace is sampled."""
    return traceparent[54:55] in _ODD_DIGITS
