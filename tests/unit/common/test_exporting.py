"""What is sampled, what is kept all the same, and who hears of a collector that is away."""

import logging
from collections.abc import Sequence

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Tracer

from common import tracing
from common.allowance import Allowance
from common.errors import SettingsError
from common.exporting import (
    CALM_SECONDS,
    PROTOCOLS,
    Exporter,
    Keeper,
    Recorded,
    Trouble,
    open_exporter,
    read_protocol,
    read_sampler,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ALLOWED = 2


class Kept(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing."""


class Traced:
    """A provider as a service has it, under these variables."""

    def __init__(self, **environ: str) -> None:
        self.provider = TracerProvider(Recorded(read_sampler(environ)), shutdown_on_exit=False)
        self.kept = Kept()
        self.provider.add_span_processor(Keeper(self.kept, Allowance(ALLOWED, lambda: 0.0)))

    @property
    def tracer(self) -> Tracer:
        return self.provider.get_tracer("test")

    def shut(self) -> list[str]:
        """The names of what was exported."""
        self.provider.shutdown()
        return [span.name for span in self.kept.spans]


def of(flags: str) -> Context:
    return tracing.context_of(f"00-{TRACE}-{SPAN}-{flags}")


@pytest.mark.parametrize("sampler", ["parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"])
@pytest.mark.parametrize(("flags", "names"), [("01", ["child"]), ("00", [])])
def test_a_clients_decision_stands(sampler: str, flags: str, names: list[str]) -> None:
    traced = Traced(OTEL_TRACES_SAMPLER=sampler, OTEL_TRACES_SAMPLER_ARG="0.5")
    with traced.tracer.start_as_current_span("child", of(flags)) as span:
        assert tracing.show(span)[-2:] == flags  # and is passed on
    assert traced.shut() == names


@pytest.mark.parametrize(("ratio", "sampled"), [("0", 0), ("1", 400)])
def test_at_either_end_of_the_ratio_none_and_all_are_sampled(ratio: str, sampled: int) -> None:
    assert len(start(400, ratio)) == sampled


def test_a_ratio_of_all_traces_is_sampled() -> None:
    assert 120 < len(start(400, "0.5")) < 280  # beyond eight standard deviations


def start(roots: int, ratio: str) -> list[str]:
    """Those that were sampled."""
    traced = Traced(OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG=ratio)
    for _ in range(roots):
        traced.tracer.start_span("root", Context()).end()
    return traced.shut()


@pytest.mark.parametrize(("flags", "names"), [("01", ["job"]), ("00", [])])
def test_a_job_of_a_batch_is_sampled_as_the_batch(flags: str, names: list[str]) -> None:
    traced = Traced(OTEL_TRACES_SAMPLER="parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG="0.5")
    batch = trace.get_current_span(of(flags)).get_span_context()
    traced.tracer.start_span("job", Context(), links=[Link(batch)]).end()
    assert traced.shut() == names


def test_an_error_is_kept_though_its_trace_is_not_sampled_but_not_any_number() -> None:
    traced = Traced()
    for number in range(ALLOWED + 1):
        with traced.tracer.start_as_current_span(f"failing {number}", of("00")) as span:
            tracing.fail(span, "timeout")
    traced.tracer.start_span("fine", of("00")).end()
    with traced.tracer.start_as_current_span("sampled", of("01")) as span:
        tracing.fail(span, "timeout")
    assert traced.shut() == ["failing 0", "failing 1", "sampled"]


class Named(Exception):
    error_type = "inference_failed"


@pytest.mark.parametrize(
    ("error", "kind"), [(Named("a payload"), "inference_failed"), (KeyError("a payload"), "KeyError")]
)
def test_of_an_error_a_span_has_the_name_and_not_the_text(error: Exception, kind: str) -> None:
    traced = Traced()
    with pytest.raises(type(error)), tracing.hold(traced.tracer.start_span("failing", of("01"))):
        raise error
    traced.shut()
    (span,) = traced.kept.spans
    assert (span.attributes, span.status.status_code) == ({"error.type": kind}, trace.StatusCode.ERROR)
    assert (span.status.description, span.events) == (kind, ())


@pytest.mark.parametrize("flags", ["00", "01"])
def test_an_error_keeps_what_it_was_given_at_its_start(flags: str) -> None:
    traced = Traced()
    with traced.tracer.start_as_current_span("failing", of(flags), attributes={"charonia.job_id": "job_1"}) as span:
        tracing.fail(span, "timeout")
    traced.shut()
    (kept,) = traced.kept.spans
    assert kept.attributes == {"charonia.job_id": "job_1", "error.type": "timeout"}


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
def test_the_protocol_of_traces_counts_before_the_general_one(own: str, general: str, protocol: str) -> None:
    assert read_protocol(dict(zip(PROTOCOLS, (own, general), strict=True))) == protocol


@pytest.mark.parametrize("variable", PROTOCOLS)
def test_an_unknown_protocol_is_named(variable: str) -> None:
    with pytest.raises(SettingsError, match=f"^{variable} is wrong"):
        open_exporter({variable: "http/json"})


def test_a_collector_that_is_away_is_told_of_once_and_its_return_once(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    trouble = Trouble(lambda: now)
    exporter = Exporter(Kept(), trouble)
    record = logging.makeLogRecord({"msg": "Failed to export %s batch", "args": ("spans",), "levelno": logging.ERROR})
    caplog.set_level(logging.INFO, "charonia")
    for _ in range(3):
        trouble.handle(record)
    exporter.export([])  # a slow collector takes some, and others find no room
    trouble.handle(record)
    now = CALM_SECONDS + 1
    exporter.export([])
    exporter.export([])
    assert caplog.messages == ["tracing.spans_lost", "tracing.exports_again"]
    trouble.handle(record)
    assert caplog.messages[2:] == ["tracing.spans_lost"]
