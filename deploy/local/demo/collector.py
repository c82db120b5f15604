"""Collects the demo's spans, unless the environment names another collector."""

import time
from collections.abc import Callable, Mapping

from deploy.local.demo.errors import DemoFailed
from deploy.local.demo.inbox import Inbox
from deploy.local.demo.spans import Span, read

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
SERVICES = {"charonia-gateway", "charonia-dispatcher", "charonia-notifier"}
DELIVERY = "POST webhook"
EXPORT = "200"  # ms between two exports of a service; the default is 5 s
SERVICES_WITHIN = 15.0  # seconds from the job's end to the last span of the services
TRITON_WITHIN = 8.0  # seconds for the spans of Triton, which exports every 5
POLL = 0.2


def is_chosen(environment: Mapping[str, str]) -> bool:
    """Return whether the environment names a collector."""
    return any(environment.get(name) for name in ENDPOINTS)


class Collector:
    """Keeps the spans that an inbox receives."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._spans: dict[str, dict[str, Span]] = {}

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return the environment with this collector in place of any other setting of OpenTelemetry."""
        kept = {name: value for name, value in before.items() if not name.startswith("OTEL_")}
        return kept | {"OTEL_EXPORTER_OTLP_ENDPOINT": self._inbox.url, "OTEL_BSP_SCHEDULE_DELAY": EXPORT}

    def gather(self, trace: str, webhooks: int, check: Callable[[], None]) -> list[Span]:
        """Wait for the spans of a job with so many webhooks, and for some seconds for those of Triton.

        Raises DemoFailed if spans of the services are missing.
        """
        started = time.monotonic()
        while True:
            check()
            self._receive()
            spans = list(self._spans.get(trace, {}).values())
            waited = time.monotonic() - started
            whole = _is_whole(spans, webhooks)
            if whole and (has_triton(spans) or waited > TRITON_WITHIN):
                return spans
            if not whole and waited > SERVICES_WITHIN:
                seen = sorted(f"{span.service}: {span.name}" for span in spans)
                raise DemoFailed(f"the trace is not complete after {SERVICES_WITHIN:g} s; it has {seen or 'no spans'}")

    def _receive(self) -> None:
        posted = self._inbox.take(POLL)
        while posted is not None:
            for span in read(posted):
                self._spans.setdefault(span.trace, {})[span.id] = span
            posted = self._inbox.take(0.0)


def has_triton(spans: list[Span]) -> bool:
    """Return whether spans of Triton, the inference and its parts, are among them."""
    return len([span for span in spans if span.service not in SERVICES]) > 1


def _is_whole(spans: list[Span], webhooks: int) -> bool:
    """Return whether one tree has spans of all services, up to the webhooks."""
    known = {span.id for span in spans}
    roots = [span for span in spans if span.parent not in known]
    sent = [span for span in spans if span.name == DELIVERY]
    return len(roots) == 1 and {span.service for span in spans} >= SERVICES and len(sent) >= webhooks
