"""Figures of several rounds as a table for people and as JSON for later comparisons."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.rounds import IN_FLIGHT, RATE

TITLES = {
    "direct.rate": f"Triton directly, {IN_FLIGHT} calls in flight, calls/s",
    "closed.rate": f"Charonia, {IN_FLIGHT} jobs in flight, jobs/s submit → webhook",
    "ratio": "  the same as a share of Triton directly",
    "closed.webhook.p50": "  submit → webhook p50, ms",
    "closed.webhook.p99": "  submit → webhook p99, ms",
    "open.accepted.p50": f"Charonia, {RATE} jobs/s, the 202 p50, ms",
    "open.accepted.p99": "  the 202 p99, ms",
    "open.webhook.p50": "  submit → webhook p50, ms",
    "open.webhook.p99": "  submit → webhook p99, ms",
    "open.around.p50": "  submit → webhook less inference p50, ms",
    "open.around.p99": "  submit → webhook less inference p99, ms",
    "open.late.p99": "  lateness of the load itself p99, ms",
}
GROUPS = {
    "direct.cpu.": "CPU-ms per direct call",
    "closed.cpu.": f"CPU-ms per job, {IN_FLIGHT} in flight",
    "open.cpu.": f"CPU-ms per job, {RATE} jobs/s",
    "idle.cpu.": "CPU-ms per second, idle",
}
ROW = "{title:<58} {median:>9} {least:>9} {most:>9}"


class Figure(msgspec.Struct):
    median: float
    min: float
    max: float


def summarise(rounds: Sequence[Mapping[str, float]]) -> dict[str, Figure]:
    """Return each figure's median and spread over the rounds; ratios are taken within a round."""
    whole = [{**each, "ratio": each["closed.rate"] / each["direct.rate"]} for each in rounds]
    return {name: _figure([each[name] for each in whole]) for name in whole[0]}


def lay_out(figures: Mapping[str, Figure]) -> Iterator[str]:
    """Return the table, line by line."""
    yield ROW.format(title="", median="median", least="min", most="max")
    for name, title in TITLES.items():
        yield _row(title, figures[name])
    for prefix, title in GROUPS.items():
        yield title
        for name in (name for name in figures if name.startswith(prefix)):
            yield _row(f"  {name.removeprefix(prefix)}", figures[name])


def write(facts: Mapping[str, Any], figures: Mapping[str, Figure], rounds: Sequence[Mapping[str, float]]) -> bytes:
    """Return the JSON of a result."""
    rounded = [{name: _round(value) for name, value in each.items()} for each in rounds]
    return msgspec.json.format(msgspec.json.encode({**facts, "figures": figures, "rounds": rounded}), indent=2) + b"\n"


def _figure(values: Sequence[float]) -> Figure:
    return Figure(_round(statistics.median(values)), _round(min(values)), _round(max(values)))


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _row(title: str, figure: Figure) -> str:
    return ROW.format(title=title, median=f"{figure.median:g}", least=f"{figure.min:g}", most=f"{figure.max:g}")
