"""A trace rendered as text, to compare it with what is expected."""

import asyncio
from collections.abc import Sequence
from textwrap import dedent

from tests.support.telemetry.otlp_collector import Span, Spans
from tests.support.waiting import POLL_SECONDS

WITHIN = 45.0  # seconds
INDENT = "  "
SEND = "send charonia.jobs"


def render_tree(spans: Sequence[Span], client: str = "") -> str:
    """Render spans as a tree: kind, name and outcome, children below their parents in order of their start.

    It leaves out Triton's spans, and wake-ups that were sent again and claimed nothing, as happens on a busy machine.
    `client` is the id of the caller's span. ORPHAN marks a span whose parent was not exported.
    """
    own = sorted((span for span in spans if span.service != "triton"), key=lambda span: (span.start, span.name))
    ids = {span.id for span in own}
    lines: list[str] = []

    def add_subtree(span: Span, depth: int) -> None:
        lines.append(INDENT * depth + describe(span))
        for child in own:
            if child.parent == span.id and not is_spare(child):
                add_subtree(child, depth + 1)

    def has_children(span: Span) -> bool:
        return any(other.parent == span.id for other in own)

    def is_spare(span: Span) -> bool:
        sent = [other for other in own if (other.name, other.parent) == (SEND, span.parent)]
        return span in sent and not has_children(span) and (span is not sent[-1] or any(map(has_children, sent)))

    for span in own:
        if span.parent in ("", client):
            add_subtree(span, 0)
        elif span.parent not in ids:
            lines.append(f"ORPHAN {describe(span)}")
    return "\n".join(lines)


def describe(span: Span) -> str:
    outcome = span.attributes.get("charonia.outcome")
    parts = [span.kind.name, span.name]
    parts += [f"= {outcome}"] if outcome else []
    parts += [f"! {span.attributes.get('error.type')}"] if span.failed else []
    parts += [f"({event})" for event in span.events]
    return " ".join(parts)


async def wait_for_tree(collector: Spans, trace_id: str, expected: str, client: str = "") -> list[Span]:
    """Return the spans of a trace once its tree is as expected. Fail and show both trees if it never is."""
    wanted = dedent(expected).strip()
    deadline = asyncio.get_running_loop().time() + WITHIN
    while True:
        spans = collector.trace(trace_id)
        found = render_tree(spans, client)
        if found == wanted:
            check_spans(spans)
            return spans
        assert asyncio.get_running_loop().time() < deadline, f"expected\n{wanted}\nbut it is\n{found}"
        await asyncio.sleep(POLL_SECONDS)


def check_spans(spans: Sequence[Span]) -> None:
    """Check that each span was exported once, ended after its start, and has an error type only if it failed."""
    assert len({span.id for span in spans}) == len(spans)
    for span in spans:
        assert 0 < span.start <= span.end, span
        assert span.failed == ("error.type" in span.attributes), span
