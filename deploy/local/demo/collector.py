"""Where the demo's spans go: a collector of its own, unless the person who starts it has one."""

import time
from collections.abc import Callable, Mapping

from deploy.local.demo.errors import DemoFailed
from deploy.local.demo.inbox import Inbox
from deploy.local.demo.spans import Span, read

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
OURS = {"charonia-gateway", "charonia-dispatcher", "charonia-notifier"}
DELIVERY = "POST webhook"
EXPORT = "200"  # milliseconds between two exports of a service; the default is 5 s
OWN_WITHIN = 15.0  # seconds from the job's end to the last span of our services
TRITON_WITHIN = 8.0  # seconds for those of Triton, which exports every 5
POLL = 0.2


def is_chosen(environment: Mapping[str, str]) -> bool:
    """Whether the environment names a collector already."""
    return any(environment.get(name) for name in ENDPOINTS)


class Collector:
    """Keeps the spans that come to an inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._spans: dict[str, dict[str, Span]] = {}

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return the environment with this collector in place of any other setting of OpenTelemetry."""
        kept = {name: value for name, value in before.items() if not name.startswith("OTEL_")}
        return kept | {"OTEL_EXPORTER_OTLP_ENDPOINT": self._inbox.url, "OTEL_BSP_SCHEDULE_DELAY": EXPORT}

    def gather(self, trace: str, webhooks: int, check: Callable[[], None]) -> list[Span]:
        """Wait for the spans of a job of which that many webhooks came, and a while for those of Triton.

        Raises DemoFailed where our own do not come.
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
            if not whole and waited > OWN_WITHIN:
                seen = sorted(f"{span.service}: {span.name}" for span in spans)
                raise DemoFailed(f"the trace is not whole after {OWN_WITHIN:g} s; seen were {seen or 'no spans'}")

    def _receive(self) -> None:
        posted = self._inbox.take(POLL)
        while posted is not None:
            for span in read(posted):
                self._spans.setdefault(span.trace, {})[span.id] = span
            posted = self._inbox.take(0.0)


def has_triton(spans: list[Span]) -> bool:
    """Whether Triton's own spans, the inference and what it consists of, are among them."""
    return len([span for span in spans if span.service not in OURS]) > 1


def _is_whole(spans: list[Span], webhooks: int) -> bool:
    """Whether all of our services are seen up to the webhooks, in one tree."""
    known = {span.id for span in spans}
    roots = [span for span in spans if span.parent not in known]
    sent = [span for span in spans if span.name == DELIVERY]
    return len(roots) == 1 and {span.service for span in spans} >= OURS and len(sent) >= webhooks
