"""Which spans are sampled and exported, and what is logged while the collector is down."""

import logging
from collections.abc import Sequence

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Tracer

from common.errors import SettingsError
from common.telemetry import tracing
from common.telemetry.otel_sdk import (
    PROTOCOLS,
    RECOVERY_SECONDS,
    ExportFailures,
    ObservedExporter,
    SampledOrFailedProcessor,
    open_exporter,
    read_protocol,
)
from common.telemetry.samplers import RecordingSampler, read_sampler
from common.token_bucket import TokenBucket

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ALLOWED = 2


class FakeExporter(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing."""


class Traced:
    """A provider like that of a service with these variables."""

    def __init__(self, **environ: str) -> None:
        self.provider = TracerProvider(RecordingSampler(read_sampler(environ)), shutdown_on_exit=False)
        self.exporter = FakeExporter()
        self.provider.add_span_processor(SampledOrFailedProcessor(self.exporter, TokenBucket(ALLOWED, lambda: 0.0)))

    @property
    def tracer(self) -> Tracer:
        return self.provider.get_tracer("test")

    def shut_down(self) -> list[str]:
        """Shut down. Return the names of the exported spans."""
        self.provider.shutdown()
        return [span.name for span in self.exporter.spans]


def parent_of(flags: str) -> Context:
    return tracing.to_context(f"00-{TRACE}-{SPAN}-{flags}")


@pytest.mark.parametrize("sampler", ["parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"])
@pytest.mark.parametrize(("flags", "names"), [("01", ["child"]), ("00", [])])
def test_the_parents_decision_is_followed(sampler: str, flags: str, names: list[str]) -> None:
    traced = Traced(OTEL_TRACES_SAMPLER=sampler, OTEL_TRACES_SAMPLER_ARG="0.5")
    with traced.tracer.start_as_current_span("child", parent_of(flags)) as span:
        assert tracing.to_traceparent(span)[-2:] == flags  # and passed on
    assert traced.shut_down() == names


@pytest.mark.parametrize(("ratio", "sampled"), [("0", 0), ("1", 400)])
def test_a_ratio_of_0_samples_nothing_and_of_1_everything(ratio: str, sampled: int) -> None:
    assert len(start(400, ratio)) == sampled


def test_a_ratio_samples_that_share_of_traces() -> None:
    assert 120 < len(start(400, "0.5")) < 280  # beyond eight standard deviations


def start(roots: int, ratio: str) -> list[str]:
    """Start root spans. Return the names of the sampled ones."""
    traced = Traced(OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG=ratio)
    for _ in range(roots):
        traced.tracer.start_span("root", Context()).end()
    return traced.shut_down()


@pytest.mark.parametrize(("flags", "names"), [("01", ["job"]), ("00", [])])
def test_a_job_of_a_batch_is_sampled_as_the_batch(flags: str, names: list[str]) -> None:
    traced = Traced(OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG="0.5")
    batch = trace.get_current_span(parent_of(flags)).get_span_context()
    traced.tracer.start_span("job", Context(), links=[Link(batch)]).end()
    assert traced.shut_down() == names


def test_failed_spans_of_unsampled_traces_are_exported_up_to_a_limit() -> None:
    traced = Traced()
    for number in range(ALLOWED + 1):
        with traced.tracer.start_as_current_span(f"failing {number}", parent_of("00")) as span:
            tracing.record_error(span, "timeout")
    traced.tracer.start_span("fine", parent_of("00")).end()
    with traced.tracer.start_as_current_span("sampled", parent_of("01")) as span:
        tracing.record_error(span, "timeout")
    assert traced.shut_down() == ["failing 0", "failing 1", "sampled"]


class Named(Exception):
    error_type = "inference_failed"


@pytest.mark.parametrize(
    ("error", "kind"), [(Named("a payload"), "inference_failed"), (KeyError("a payload"), "KeyError")]
)
def test_a_span_has_the_name_of_an_error_and_not_its_text(error: Exception, kind: str) -> None:
    traced = Traced()
    with pytest.raises(type(error)), tracing.use_span(traced.tracer.start_span("failing", parent_of("01"))):
        raise error
    traced.shut_down()
    (span,) = traced.exporter.spans
    assert (span.attributes, span.status.status_code) == ({"error.type": kind}, trace.StatusCode.ERROR)
    assert (span.status.description, span.events) == (kind, ())


@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_failed_span_keeps_its_first_attributes(flags: str) -> None:
    traced = Traced()
    with traced.tracer.start_as_current_span(
        "failing", parent_of(flags), attributes={"charonia.job_id": "job_1"}
    ) as span:
        tracing.record_error(span, "timeout")
    traced.shut_down()
    (exported,) = traced.exporter.spans
    assert exported.attributes == {"charonia.job_id": "job_1", "error.type": "timeout"}


@pytest.mark.parametrize(
    ("environ", "variable"),
    [
        ({"OTEL_TRACES_SAMPLER": "sometimes"}, "OTEL_TRACES_SAMPLER"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1%"}, "OTEL_TRACES_SAMPLER_ARG"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"}, "OTEL_TRACES_SAMPLER_ARG"),
        (
            {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
            "OTEL_TRACES_SAMPLER_ARG",
        ),
    ],
)
def test_a_wrong_sampler_is_named(environ: dict[str, str], variable: str) -> None:
    with pytest.raises(SettingsError, match=f"^{variable} is wrong"):
        read_sampler(environ)


@pytest.mark.parametrize(
    ("own", "general", "protocol"),
    [
        ("", "", "http/protobuf"),
        ("", "grpc", "grpc"),
        ("grpc", "http/json", "grpc"),
        ("http/protobuf", "grpc", "http/protobuf"),
    ],
)
def test_the_protocol_of_traces_precedes_the_general_one(own: str, general: str, protocol: str) -> None:
    assert read_protocol(dict(zip(PROTOCOLS, (own, general), strict=True))) == protocol


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_an_unknown_protocol_is_named(variable: str) -> None:
    with pytest.raises(SettingsError, match=f"^{variable} is wrong"):
        open_exporter({variable: "http/json"})


def test_an_outage_of_the_collector_and_its_end_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    failures = ExportFailures(lambda: now)
    exporter = ObservedExporter(FakeExporter(), failures)
    record = logging.makeLogRecord({"msg": "Failed to export %s batch", "args": ("spans",), "levelno": logging.ERROR})
    caplog.set_level(logging.INFO, "charonia")
    for _ in range(3):
        failures.handle(record)
    exporter.export([])  # a slow collector accepts some spans while others are lost
    failures.handle(record)
    now = RECOVERY_SECONDS + 1
    exporter.export([])
    exporter.export([])
    assert caplog.messages == ["tracing.spans_lost", "tracing.exports_resumed"]
    failures.handle(record)
    assert caplog.messages[2:] == ["tracing.spans_lost"]
