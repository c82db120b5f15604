"""The aims: what each figure should reach, and whether it does."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from benchmarks.harness.bench import SERVICES
from benchmarks.harness.report import Figure

ROW = "{title:<70} {aim:>9} {median:>9} {spread:>19}  {verdict}"


class Aim(NamedTuple):
    """A bound for the median of a figure. The title may name parts of the setup."""

    figure: str
    comparison: Literal["≥", "≤"]
    value: float
    title: str


AIMS = (
    Aim("work.ratio", "≥", 0.85, "GPU-bound model, jobs/s ÷ Triton directly, 64 in flight"),
    Aim("work.256.ratio", "≥", 0.95, "  256 in flight"),
    Aim("ratio", "≥", 0.15, "free model, jobs/s submit → webhook ÷ Triton directly, 64 in flight"),
    Aim("open.around.p50", "≤", 10, "submit → webhook less inference, 50 jobs/s, p50, ms"),
    Aim("open.around.p99", "≤", 40, "  p99, ms"),
    Aim("open.accepted.p50", "≤", 4, "the 202, 50 jobs/s, p50, ms"),
    Aim("open.accepted.p99", "≤", 15, "  p99, ms"),
    Aim("open.rows", "≤", 9, "a job at 50 jobs/s: row writes"),
    Aim("open.commits", "≤", 5, "  commits"),
    Aim("open.wal.syncs", "≤", 2, "  syncs of the write-ahead log"),
    Aim("open.statements", "≤", 2.2, "  planning and execution of its statements, ms"),
    Aim("open.own", "≤", 8, "  CPU-ms of our services together"),
    Aim("open.cpu.postgres", "≤", 2, "  CPU-ms of PostgreSQL"),
    Aim("submit.ratio", "≥", 0.5, "jobs accepted/s ÷ requests/s of an endpoint that does nothing"),
    Aim("burst.succeeded", "≥", 100, "100 jobs of 20 s at once: succeeded, %"),
    Aim("burst.accepted.mean", "≤", 25, "  the 202, mean, all at the same instant, ms"),
    Aim("burst.spaced.mean", "≤", 25, "  the 202, mean, within a second, ms"),
    Aim("burst.again", "≤", 0, "  inferences more than jobs"),
    Aim("pair.ratio", "≥", 1, "two instances of each service ÷ one, jobs/s, 64 in flight"),
    Aim("big.ratio", "≥", 0.9, "jobs/s with {rows:,} ended and {queued:,} waiting jobs ÷ with none"),
    *(Aim(f"memory.idle.{name}", "≤", 80, f"{name}'s memory, idle, MB") for name in SERVICES),
    *(
        Aim(f"memory.grown.{name}", "≤", 20, f"  {name}'s, {{jobs:,}} jobs in flight, more than with 64, MB")
        for name in SERVICES
    ),
    Aim("full.100.per_core", "≥", 1000, "deliveries/s per core of the notifier's CPU, 100 endpoints"),
    Aim("files.upload.ratio", "≥", 0.5, "upload of 1 GiB, rate ÷ plain obstore and a sync"),
    Aim("files.download.ratio", "≥", 0.5, "download of 1 GiB, rate ÷ plain obstore"),
    Aim("closed.own", "≤", 2.5, "CPU-ms per job of our services together, 64 in flight"),
)


def compare(aim: Aim, median: float) -> str:
    """Return the verdict."""
    met = median >= aim.value if aim.comparison == "≥" else median <= aim.value
    return "reached" if met else "not reached"


def format_aims(aims: Sequence[Aim], figures: Mapping[str, Figure], setup: Mapping[str, Any]) -> Iterator[str]:
    """Return the table, line by line."""
    yield ROW.format(title="", aim="aim", median="measured", spread="min – max", verdict="").rstrip()
    for aim in aims:
        figure = figures[aim.figure]
        yield ROW.format(
            title=aim.title.format_map(setup),
            aim=f"{aim.comparison} {aim.value:g}",
            median=f"{figure.median:g}",
            spread=f"{figure.min:g} – {figure.max:g}",
            verdict=compare(aim, figure.median),
        )
