"""Writes the diagram of the states of a job, from what the verbs in `common/jobs` declare."""

from common.job_states import TERMINAL, Status
from common.jobs.transitions import list_edges


def write_diagram() -> str:
    lines = [f"    {edge.before} --> {edge.after}: {edge.label}" for edge in list_edges()]
    ends = [f"    {status} --> [*]" for status in Status if status in TERMINAL]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> queued: submit", *lines, *ends, "```"])
