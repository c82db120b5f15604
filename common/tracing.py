"""One trace for each job, in W3C trace context; off, at no cost, unless the OTEL_* variables name an endpoint."""

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
    use_span,
)

from common.errors import SettingsError

ODD = frozenset("13579bdf")  # the last digit of its flags, where it is sampled
TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")  # later versions say more
SHUTDOWN_SECONDS = 5.0
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
EXPORTER = "OTEL_TRACES_EXPORTER"

Attributes = (
    Mapping[str, str | int] | Callable[[], Mapping[str, str | int]]
)  # to be asked where a span begins, or never

tracer = trace.get_tracer("charonia")
NOBODY = trace.get_tracer_provider()


def configure(service: str, environ: Mapping[str, str] = os.environ) -> None:
    """Starts the SDK where an OTLP endpoint is set; without one a span is a no-op that passes its parent on.

    Raises SettingsError.
    """
    if not is_on(environ):
        return
    from common.exporting import open_provider  # only here: a service without tracing does not pay for the SDK

    trace.set_tracer_provider(open_provider(environ.get("OTEL_SERVICE_NAME", f"charonia-{service}"), environ))


def is_on(environ: Mapping[str, str]) -> bool:
    """Whether there is somewhere to send spans to, and they are wanted; raises SettingsError."""
    if not any(environ.get(name) for name in ENDPOINTS) or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = environ.get(EXPORTER) or "otlp"
    if exporter not in ("otlp", "none"):
        raise SettingsError(f"{EXPORTER} is wrong: it is neither otlp nor none")
    return exporter == "otlp"


def is_off() -> bool:
    """Whether no SDK was started in this process."""
    return trace.get_tracer_provider() is NOBODY


def shutdown() -> None:
    """Sends what is still buffered; gives up on a collector that does not take it in time."""
    provider = trace.get_tracer_provider()
    if stop := getattr(provider, "shutdown", None):
        sending = threading.Thread(target=stop, name="last-spans", daemon=True)
        sending.start()
        sending.join(SHUTDOWN_SECONDS)


def parse(traceparent: str | None) -> SpanContext | None:
    """The span named by a traceparent; None for none or an invalid one, as W3C asks: start anew then."""
    match = TRACEPARENT.fullmatch(traceparent or "")
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more):
        return None
    found = SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))
    return found if found.is_valid else None


def context_of(traceparent: str | None) -> Context:
    """The context to start a child of this traceparent in; a root where there is none."""
    parent = parse(traceparent)
    return trace.set_span_in_context(NonRecordingSpan(parent), Context()) if parent else Context()


def join(own: str, message: str | None) -> tuple[Context, list[Link]]:
    """The context for what a message makes happen to something with a trace of its own, and what to link that to.

    The message's span is the parent where it belongs to that trace, and is linked to where it came from another.
    """
    sent = parse(message)
    if message is None or sent is None:
        return context_of(own), []
    if trace_id(message) == trace_id(own):
        return context_of(message), []
    return context_of(own), [Link(sent)]


def begin(
    name: str,
    context: Context | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    attributes: Attributes | None = None,
    links: Sequence[Link] = (),
) -> AbstractContextManager[Span]:
    """A new span around a block, as `hold` has it; its parent's stand-in where tracing is off."""
    if is_off():
        return Passed(context)
    return hold(tracer.start_span(name, context, kind, attributes() if callable(attributes) else attributes, links))


class Passed(AbstractContextManager[Span]):
    """What a span without the SDK comes to, at half its cost: whatever asks for the current span gets the parent."""

    def __init__(self, context: Context | None) -> None:
        self.context = context
        self.token: Token[Context] | None = None

    def __enter__(self) -> Span:
        if self.context is not None:
            self.token = attach(self.context)
        return trace.get_current_span()

    def __exit__(self, *_: object) -> None:
        if self.token is not None:
            detach(self.token)


@contextmanager
def hold(span: Span) -> Iterator[Span]:
    """Makes a span the current one until the block's end, and its own; an error that leaves the block is named in it.

    By its `error_type`, or its class, never by its text, as the SDK would: that may quote a payload.
    """
    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span
        except Exception as error:
            fail(span, getattr(error, "error_type", type(error).__name__))
            raise


def fail(span: Span, kind: str) -> None:
    """Marks what a span stands for as failed; `kind` is one of few words, a code or a class."""
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, kind))


def link(traceparent: str) -> None:
    """Lets the current span point at the trace of what it does something to."""
    span, other = trace.get_current_span(), parse(traceparent)
    if other is not None and other.trace_id != span.get_span_context().trace_id:
        span.add_link(other)


def begin_linked(name: str, traceparent: str, attributes: Mapping[str, str]) -> str:
    """The root of a trace for one of many that come together, linked to what brought them; sampled as that is."""
    origin = parse(traceparent)
    if origin is None or not origin.trace_flags.sampled:
        return new_traceparent()
    span = tracer.start_span(name, Context(), attributes=attributes, links=[Link(origin)])
    span.end()
    return show(span)


def show(span: Span) -> str:
    """The traceparent that names a span; a new unsampled one where tracing is off and nothing came in."""
    context = span.get_span_context()
    if not context.is_valid:
        return new_traceparent()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def new_traceparent() -> str:
    """One that is not sampled, for what begins without a request."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"


def trace_id(traceparent: str) -> str:
    return traceparent[3:35]


def is_sampled(traceparent: str) -> bool:
    return traceparent[54:55] in ODD
