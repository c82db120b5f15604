"""The SDK behind common/tracing.py: what is sampled, what is kept, and who hears of a collector that is away."""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, StatusCode, TraceState
from opentelemetry.util.types import Attributes

from common import VERSION
from common.allowance import Allowance
from common.errors import SettingsError
from common.logs import Log

SAMPLER, RATIO = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SAMPLERS = ("always_on", "always_off", "traceidratio")  # each also as parentbased_…
PARENT_BASED = "parentbased_"
ERRORS_PER_SECOND = 50.0  # spans of traces that are not sampled; what is sampled shall not lose its room to an outage
QUEUE = 8192  # spans that wait for the collector, some 2 KB each; what finds no room is lost
CALM_SECONDS = 60.0  # without trouble, until an end of it is told
TROUBLED = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal")  # whose loggers complain of each batch

log = Log("tracing")


class Linked(Sampler):
    """A root that is linked to something is sampled as that is: a batch's jobs as the request that brought them."""

    def __init__(self, otherwise: Sampler) -> None:
        self.otherwise = otherwise

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        chosen = self.otherwise
        if links:
            chosen = ALWAYS_ON if any(link.context.trace_flags.sampled for link in links) else ALWAYS_OFF
        return chosen.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"Linked{{{self.otherwise.get_description()}}}"


class Recorded(Sampler):
    """Records what another does not sample, with the attributes given at the start: AlwaysRecordSampler loses them."""

    def __init__(self, root: Sampler) -> None:
        self.root = root

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        found = self.root.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)
        if found.decision is Decision.DROP:
            return SamplingResult(Decision.RECORD_ONLY, attributes, found.trace_state)
        return found

    def get_description(self) -> str:
        return f"Recorded{{{self.root.get_description()}}}"


def read_sampler(environ: Mapping[str, str]) -> Sampler:
    """As OpenTelemetry's variables ask, by default all that is not told otherwise; raises SettingsError."""
    name = environ.get(SAMPLER) or "parentbased_always_on"
    kind = name.removeprefix(PARENT_BASED)
    if kind not in SAMPLERS:
        known = ", ".join([*SAMPLERS, *(PARENT_BASED + each for each in SAMPLERS)])
        raise SettingsError(f"{SAMPLER} is wrong: it is none of {known}")
    root: Sampler
    if kind == "traceidratio":
        root = TraceIdRatioBased(read_ratio(environ.get(RATIO) or "1"))
    else:
        root = ALWAYS_ON if kind == "always_on" else ALWAYS_OFF
    return ParentBased(Linked(root)) if name.startswith(PARENT_BASED) else root


def read_ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise SettingsError(f"{RATIO} is wrong: it is no number from 0 to 1")
    return ratio


class Keeper(BatchSpanProcessor):
    """Exports what is sampled, and whatever ended in an error: no sampler can know that when a span begins.

    Of a trace that is not sampled only these spans are kept, and only so many a second.
    """

    def __init__(self, exporter: SpanExporter, errors: Allowance) -> None:
        super().__init__(exporter, None if os.environ.get(OTEL_BSP_MAX_QUEUE_SIZE) else QUEUE)
        self.errors = errors

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is None:
            return
        failed = span.status.status_code is StatusCode.ERROR
        if span.context.trace_flags.sampled or (failed and self.errors.take()):
            self._batch_processor.emit(span)


class Trouble(logging.Handler):
    """Hears all that the SDK says of exports that fail, and says it once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self.clock = clock
        self.heard_at: float | None = None

    def emit(self, record: logging.LogRecord) -> None:
        first = self.heard_at is None
        self.heard_at = self.clock()
        if first:
            log.warning("tracing.spans_lost", reason=record.getMessage())

    def calm(self) -> None:
        """An export has succeeded."""
        if self.heard_at is not None and self.clock() - self.heard_at > CALM_SECONDS:
            self.heard_at = None
            log.info("tracing.exports_again")

    def attach(self) -> None:
        for name in TROUBLED:
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [self], False


class Exporter(SpanExporter):
    """Tells when the collector takes spans again."""

    def __init__(self, exporter: SpanExporter, trouble: Trouble) -> None:
        self.exporter = exporter
        self.trouble = trouble

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self.exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.trouble.calm()
        return result

    def shutdown(self) -> None:
        self.exporter.shutdown()


def read_protocol(environ: Mapping[str, str]) -> str:
    """That of traces, before that of all signals."""
    for name in PROTOCOLS:
        if protocol := environ.get(name):
            if protocol not in ("http/protobuf", "grpc"):
                raise SettingsError(f"{name} is wrong: it is neither http/protobuf nor grpc")
            return protocol
    return "http/protobuf"


def open_exporter(environ: Mapping[str, str]) -> SpanExporter:
    """By the OTEL_EXPORTER_OTLP_* variables; raises SettingsError."""
    if read_protocol(environ) == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        return GrpcExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

    return HttpExporter()


def open_provider(name: str, environ: Mapping[str, str]) -> TracerProvider:
    """Records every span, for the sake of those that fail; exports beside all else, from a bounded queue."""
    sampler = Recorded(read_sampler(environ))
    trouble = Trouble()
    trouble.attach()
    provider = TracerProvider(
        sampler, Resource.create({SERVICE_NAME: name, SERVICE_VERSION: VERSION}), shutdown_on_exit=False
    )
    provider.add_span_processor(Keeper(Exporter(open_exporter(environ), trouble), Allowance(ERRORS_PER_SECOND)))
    return provider
