"""The SDK behind tracing.py: the sampler, the span processor and the exporter."""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode

from common import VERSION
from common.errors import SettingsError
from common.telemetry.logs import Log
from common.telemetry.samplers import RecordingSampler, read_sampler
from common.token_bucket import TokenBucket

PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
ERRORS_PER_SECOND = 50.0  # failed spans of unsampled traces, so that an outage leaves room for sampled spans
MAX_QUEUE_SIZE = 8192  # spans that wait for the collector, about 2 KB each; the rest is lost
RECOVERY_SECONDS = 60.0  # without an error, before exports count as resumed
SDK_LOGGERS = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal")  # they log each failed batch

log = Log("tracing")


class SampledOrFailedProcessor(BatchSpanProcessor):
    """Exports sampled spans and failed spans. No sampler can know at the start that a span will fail.

    Of an unsampled trace only the failed spans are exported, and only a limited number a second.
    """

    def __init__(self, exporter: SpanExporter, errors: TokenBucket) -> None:
        super().__init__(exporter, None if os.environ.get(OTEL_BSP_MAX_QUEUE_SIZE) else MAX_QUEUE_SIZE)
        self._errors = errors

    def on_end(self, span: ReadableSpan) -> None:
        """Queue the span for export."""
        if span.context is None:
            return
        failed = span.status.status_code is StatusCode.ERROR
        if span.context.trace_flags.sampled or (failed and self._errors.acquire()):
            self._batch_processor.emit(span)


class ExportFailures(logging.Handler):
    """Takes the SDK's log lines about failed exports, and logs the start and the end of an outage once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        self._failed_at: float | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Note a failed export. Log the first one of an outage."""
        first = self._failed_at is None
        self._failed_at = self._clock()
        if first:
            log.warning("tracing.spans_lost", reason=record.getMessage())

    def note_success(self) -> None:
        """Note a successful export. Log the end of an outage."""
        if self._failed_at is not None and self._clock() - self._failed_at > RECOVERY_SECONDS:
            self._failed_at = None
            log.info("tracing.exports_resumed")

    def attach(self) -> None:
        """Take the log lines of the SDK."""
        for name in SDK_LOGGERS:
            logger = logging.getLogger(name)
            logger.handlers, logger.propagate = [self], False


class ObservedExporter(SpanExporter):
    """Exports spans and notes each success."""

    def __init__(self, exporter: SpanExporter, failures: ExportFailures) -> None:
        self._exporter = exporter
        self._failures = failures

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans."""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._failures.note_success()
        return result

    def shutdown(self) -> None:
        """Shut the exporter down."""
        self._exporter.shutdown()


def read_protocol(environ: Mapping[str, str]) -> str:
    """Return the protocol of traces, else the one of all signals. Raise SettingsError for an unknown one."""
    for name in PROTOCOLS:
        if protocol := environ.get(name):
            if protocol not in ("http/protobuf", "grpc"):
                raise SettingsError(f"{name} is wrong: expected http/protobuf or grpc")
            return protocol
    return "http/protobuf"


def open_exporter(environ: Mapping[str, str]) -> SpanExporter:
    """Return the exporter that the OTEL_EXPORTER_OTLP_* variables describe. Raise SettingsError if they are wrong."""
    if read_protocol(environ) == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

        return GrpcExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

    return HttpExporter()


def open_provider(name: str, environ: Mapping[str, str]) -> TracerProvider:
    """Return a provider that records every span, because it may fail. A thread exports them from a bounded queue."""
    failures = ExportFailures()
    failures.attach()
    provider = TracerProvider(
        RecordingSampler(read_sampler(environ)),
        Resource.create({SERVICE_NAME: name, SERVICE_VERSION: VERSION}),
        shutdown_on_exit=False,
    )
    exporter = ObservedExporter(open_exporter(environ), failures)
    provider.add_span_processor(SampledOrFailedProcessor(exporter, TokenBucket(ERRORS_PER_SECOND)))
    return provider
