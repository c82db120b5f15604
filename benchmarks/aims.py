"""What we want to be as fast as, and whether we are."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from benchmarks.report import Figure
from benchmarks.speed import OWN

CPU = "closed.cpu."  # the figures by process that are told beside
FLAT = 20  # MB
ROW = "{title:<70} {aim:>9} {median:>9} {spread:>19}  {verdict}"


class Aim(NamedTuple):
    """That a figure's median is at least, or at most, a value; `stretch` would be better still.

    The title has places for what was set up.
    """

    figure: str
    comparison: Literal["≥", "≤"]
    value: float
    title: str
    stretch: float | None = None


AIMS = (
    Aim("work.ratio", "≥", 0.98, "GPU-bound model, jobs/s ÷ Triton directly, 64 in flight"),
    Aim("ratio", "≥", 0.15, "free model, jobs/s submit → webhook ÷ Triton directly, 64 in flight", stretch=0.3),
    Aim("open.around.p50", "≤", 10, "submit → webhook less inference, 50 jobs/s, p50, ms"),
    Aim("open.around.p99", "≤", 40, "  p99, ms"),
    Aim("open.accepted.p50", "≤", 4, "the 202, 50 jobs/s, p50, ms"),
    Aim("open.accepted.p99", "≤", 15, "  p99, ms"),
    Aim("submit.ratio", "≥", 0.5, "jobs accepted/s ÷ requests/s of an endpoint that does nothing"),
    Aim("burst.succeeded", "≥", 100, "100 jobs of 20 s at once: succeeded, %"),
    Aim("burst.accepted.mean", "≤", 25, "  the 202, mean, all at the same instant, ms"),
    Aim("burst.spaced.mean", "≤", 25, "  the 202, mean, within a second, ms"),
    Aim("burst.again", "≤", 0, "  inferences more than jobs"),
    Aim("pair.ratio", "≥", 1, "two instances of each service ÷ one, jobs/s, 64 in flight"),
    Aim("big.ratio", "≥", 0.9, "jobs/s with {rows:,} ended and {queued:,} waiting jobs ÷ with none"),
    *(Aim(f"memory.idle.{name}", "≤", 80, f"{name}'s memory, idle, MB") for name in OWN),
    *(
        Aim(f"memory.grown.{name}", "≤", FLAT, f"  {name}'s, {{jobs:,}} jobs in flight, more than with 64, MB")
        for name in OWN
    ),
    Aim("full.100.per_core", "≥", 1000, "deliveries/s per core of the notifier's CPU, 100 endpoints"),
    Aim("closed.own", "≤", 2.5, "CPU-ms per job of our services together, 64 in flight", stretch=1.2),
)


def judge(aim: Aim, median: float) -> str:
    """Return the verdict."""
    if aim.stretch is not None and _meets(aim, median, aim.stretch):
        return f"reached, and {aim.comparison} {aim.stretch:g} too"
    return "reached" if _meets(aim, median, aim.value) else "not reached"


def name_figures(aims: Sequence[Aim], setup: Mapping[str, Any]) -> dict[str, str]:
    """Return the titles by figure."""
    return {aim.figure: aim.title.format_map(setup) for aim in aims}


def lay_out(aims: Sequence[Aim], figures: Mapping[str, Figure], setup: Mapping[str, Any]) -> Iterator[str]:
    """Return the table, line by line."""
    titles = name_figures(aims, setup)
    yield ROW.format(title="", aim="aim", median="measured", spread="min – max", verdict="").rstrip()
    for aim in aims:
        figure = figures[aim.figure]
        yield ROW.format(
            title=titles[aim.figure],
            aim=f"{aim.comparison} {aim.value:g}",
            median=f"{figure.median:g}",
            spread=f"{figure.min:g} – {figure.max:g}",
            verdict=judge(aim, figure.median),
        )


def _meets(aim: Aim, median: float, value: float) -> bool:
    return median >= value if aim.comparison == "≥" else median <= value
