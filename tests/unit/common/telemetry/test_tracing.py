"""Trace context."""

import pytest
from opentelemetry import trace

from common.errors import SettingsError
from common.telemetry import tracing

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environ", "on"),
    [
        ({}, False),
        (ENDPOINT, True),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": ""}, True),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "True"}, False),
    ],
)
def test_tracing_is_on_if_an_endpoint_is_set(environ: dict[str, str], on: bool) -> None:
    assert tracing.is_on(environ) == on


def test_an_unknown_exporter_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^OTEL_TRACES_EXPORTER is wrong"):
        tracing.is_on(ENDPOINT | {"OTEL_TRACES_EXPORTER": "console"})


@pytest.mark.parametrize("text", [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-01-more"])
def test_a_traceparent_is_parsed(text: str) -> None:
    found = tracing.parse(text)
    assert found is not None
    assert (f"{found.trace_id:032x}", f"{found.span_id:016x}") == (TRACE, SPAN)
    assert found.trace_flags.sampled == tracing.is_sampled(text)
    assert found.is_remote


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "junk",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00_{TRACE}_{SPAN}_01",
        f"00-{TRACE}-{SPAN}-0x",
        f"00-{TRACE[:-1]}١-{SPAN}-01",
    ],
)
def test_anything_else_is_no_parent(text: str | None) -> None:
    assert tracing.parse(text) is None


def test_without_tracing_a_span_passes_its_parent_on() -> None:
    text = f"00-{TRACE}-{SPAN}-01"
    with tracing.tracer.start_as_current_span("anything", tracing.to_context(text)) as span:
        assert tracing.to_traceparent(span) == text


def test_without_a_parent_a_new_trace_is_not_sampled() -> None:
    with tracing.tracer.start_as_current_span("anything", tracing.to_context(None)) as span:
        first, second = tracing.to_traceparent(span), tracing.to_traceparent(span)
    assert tracing.parse(first) is not None
    assert not tracing.is_sampled(first)
    assert tracing.trace_id(first) != tracing.trace_id(second)


def test_a_message_of_the_same_trace_is_the_parent() -> None:
    own, sent = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN[::-1]}-01"
    context, links = tracing.continue_trace(own, sent)
    assert tracing.to_traceparent(trace.get_current_span(context)) == sent
    assert links == []


def test_a_message_of_another_trace_is_linked() -> None:
    own, sent = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE[::-1]}-{SPAN}-01"
    context, links = tracing.continue_trace(own, sent)
    assert tracing.to_traceparent(trace.get_current_span(context)) == own
    assert [link.context for link in links] == [tracing.parse(sent)]


@pytest.mark.parametrize("sent", [None, "junk"])
def test_a_message_without_a_trace_changes_nothing(sent: str | None) -> None:
    own = f"00-{TRACE}-{SPAN}-01"
    context, links = tracing.continue_trace(own, sent)
    assert (tracing.to_traceparent(trace.get_current_span(context)), links) == (own, [])
