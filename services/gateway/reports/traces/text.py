"""Writes a trace as plain text, in the columns of `make demo`. Pure."""

from services.gateway.reports.traces.schemas import SpanView, TraceView

ROW = "{at:>14}  {took:>14}  {service:<10}  {name}"
CUT = "Only the latest attempts and deliveries are shown."


def write_text(trace: TraceView) -> str:
    """Return the trace as lines. A span that goes on has no duration."""
    lines = [f"Trace {trace.trace_id} of {trace.job_id}: {trace.status}", ""]
    lines.append(ROW.format(at="at", took="took", service="service", name="span"))
    lines += [write_span(span) for span in trace.spans]
    lines += ["", CUT] if trace.truncated else []
    return "\n".join(lines) + "\n"


def write_span(span: SpanView) -> str:
    took = "…" if span.took_ms is None else f"{span.took_ms:.1f} ms"
    name = "  " * span.depth + span.name + (f" ({span.detail})" if span.detail else "")
    return ROW.format(at=f"{span.at_ms:.1f} ms", took=took, service=span.service, name=name)
