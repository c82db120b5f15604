"""A trace as text, to be compared with what it should be."""

import asyncio
from collections.abc import Sequence
from textwrap import dedent

from tests.acceptance.collector import Span, Spans
from tests.acceptance.waiting import POLL

WITHIN = 20.0  # seconds
INDENT = "  "


def draw(spans: Sequence[Span], client: str = "") -> str:
    """Children below their parents, in the order of their beginnings: kind, name, what came of it; without Triton's.

    `client` is the span of the caller's. What hangs on a span that nobody exported is an orphan.
    """
    ours = sorted((span for span in spans if span.service != "triton"), key=lambda span: (span.start, span.name))
    known = {span.id for span in ours}
    lines: list[str] = []

    def grow(span: Span, depth: int) -> None:
        lines.append(INDENT * depth + tell(span))
        for child in ours:
            if child.parent == span.id:
                grow(child, depth + 1)

    for span in ours:
        if span.parent in ("", client):
            grow(span, 0)
        elif span.parent not in known:
            lines.append(f"ORPHAN {tell(span)}")
    return "\n".join(lines)


def tell(span: Span) -> str:
    outcome = span.attributes.get("charonia.outcome")
    parts = [span.kind.name, span.name]
    parts += [f"= {outcome}"] if outcome else []
    parts += [f"! {span.attributes.get('error.type')}"] if span.failed else []
    parts += [f"({event})" for event in span.events]
    return " ".join(parts)


async def wait_for_tree(collector: Spans, trace_id: str, expected: str, client: str = "") -> list[Span]:
    """The trace, once it looks as expected; fails, and shows both, if it never does."""
    wanted = dedent(expected).strip()
    deadline = asyncio.get_running_loop().time() + WITHIN
    while True:
        spans = collector.trace(trace_id)
        drawn = draw(spans, client)
        if drawn == wanted:
            check(spans)
            return spans
        assert asyncio.get_running_loop().time() < deadline, f"expected\n{wanted}\nbut it is\n{drawn}"
        await asyncio.sleep(POLL)


def check(spans: Sequence[Span]) -> None:
    """Each ended, after it began, and was exported once; a failed one says by what, and no other does."""
    assert len({span.id for span in spans}) == len(spans)
    for span in spans:
        assert 0 < span.start <= span.end, span
        assert span.failed == ("error.type" in span.attributes), span
