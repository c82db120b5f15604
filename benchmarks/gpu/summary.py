"""The table of the scenario `gpu`: a column for each number of instances, the aims, and what limits jobs/s."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from benchmarks.harness.aims import Aim
from benchmarks.harness.aims import compare as judge
from benchmarks.harness.report import Figure

COLUMN = re.compile(r"^gpu\.(\d+)\.(.+)$")
WIDTH, CELL = 62, 10
FULL = 0.95  # of the time in which the model computes, or of a core: there is no more of it
MACHINE_FULL = 0.9  # of all cores
GROWTH = 1.05  # from one number of instances to the next; less is noise
SERVICES = ("gateway", "dispatcher", "notifier")
NO_GPU = (
    "There is no GPU: the models run on the CPU, which they share with the load and all servers.",
    "The aims are those of a machine with a GPU and 16 cores. These figures show the script, not what a GPU reaches.",
)

CLIENT_FULL = "Triton alone could do more: its client used a whole core. Choose a larger --size."

Columns = Mapping[int, Mapping[str, float]]  # the medians of each number of instances


AIMS = (
    Aim("ratio", "≥", 0.98, "jobs/s ÷ Triton directly, both saturated"),
    Aim("open50.around.p99", "≤", 30, "submit → webhook less inference, 50 jobs/s, p99, ms"),
    Aim("first.more.p50", "≤", 15, "first token, more than directly, p50, ms"),
)
ROWS = {  # titles by figure
    "direct.rate": "jobs/s of Triton directly",
    "closed.rate": "jobs/s through Charonia",
    "ratio": AIMS[0].title,
    **{
        f"open{rate}.around.{cut}": f"submit → webhook less inference, {rate} jobs/s, {cut}, ms"
        for rate in (10, 50, 200)
        for cut in ("p50", "p99")
    },
    "few.direct.first.p50": "first token directly, p50, ms",
    "few.stream.first.p50": "first token through server-sent events, p50, ms",
    "first.ratio": "first token ÷ directly, p50",
    "first.more.p50": AIMS[2].title,
    "first.more.p99": "  p99, ms",
    "many.direct.rate": "tokens/s directly, as many streams as the decoder has places",
    "many.stream.rate": "  through server-sent events",
    "tokens.ratio": "  as a share of directly",
    "direct.compute": "share of the time in which the model computes, directly",
    "closed.compute": "  through Charonia",
    "busy.ratio": "GPU busy by NVML ÷ directly",
    "closed.batch": "images in a batch",
    "closed.own": "CPU-ms a job: our services together",
    **{f"closed.cpu.{name}": f"  {name}" for name in (*SERVICES, "postgres", "rabbitmq", "triton", "load")},
    "closed.cores": "cores in use at full load",
}


def summarize(figures: Mapping[str, Figure], facts: Mapping[str, Any]) -> Iterator[str]:
    """Return the table, line by line."""
    columns = split_columns(figures)
    yield from _describe(facts)
    yield ""
    yield _format("instances of each service", map(str, columns))
    for figure, title in ROWS.items():
        values = [column.get(figure) for column in columns.values()]
        if any(value is not None for value in values):
            yield _format(title, map(_format_value, values))
    yield ""
    for aim in AIMS:
        yield f"{aim.title} {aim.comparison} {aim.value:g}: {judge_columns(aim, columns)}"
    yield f"jobs/s grow with the instances until the model is full: {judge_growth(columns)}"
    yield ""
    for count, column in columns.items():
        yield f"What limits {count} of each: {name_limit(column, facts['cores'])}."
    if any(column.get("direct.cores.client", 0.0) >= FULL for column in columns.values()):
        yield CLIENT_FULL


def split_columns(figures: Mapping[str, Figure]) -> dict[int, dict[str, float]]:
    """Return the medians by number of instances."""
    columns: dict[int, dict[str, float]] = {}
    for name, figure in figures.items():
        if found := COLUMN.match(name):
            columns.setdefault(int(found[1]), {})[found[2]] = figure.median
    return dict(sorted(columns.items()))


def judge_columns(aim: Aim, columns: Columns) -> str:
    """Return the verdict: the first number of instances that reaches an aim is enough."""
    measured = [count for count, column in columns.items() if aim.figure in column]
    for count in measured:
        if judge(aim, columns[count][aim.figure]) == "reached":
            return f"reached with {count}"
    return "not reached" if measured else "not measured"


def judge_growth(columns: Columns) -> str:
    """Return whether each further step brings more jobs/s, up to one at which the model is full."""
    counts = list(columns)
    if len(counts) < 2:
        return "not measured"
    for count, following in pairwise(counts):
        if is_full(columns[count]):
            return f"reached, full with {count}"
        if columns[following]["closed.rate"] < GROWTH * columns[count]["closed.rate"]:
            return f"not reached: {following} of each bring no more than {count}"
    return "reached"


def is_full(column: Mapping[str, float]) -> bool:
    """Return whether the model can do no more: it computes all the time, or does as much as it does directly."""
    return column["closed.compute"] >= FULL or column["ratio"] >= AIMS[0].value


def name_limit(column: Mapping[str, float], cores: int) -> str:
    """Return what is used up at full load."""
    used = {
        name.removeprefix("closed.cores."): value for name, value in column.items() if name.startswith("closed.cores.")
    }
    busiest = max(used, key=lambda name: used[name] if name in (*SERVICES, "load") else 0.0)
    if is_full(column):
        return f"the model, which computes {column['closed.compute']:.0%} of the time"
    if column["closed.cores"] >= MACHINE_FULL * cores:
        return f"the {cores} cores of the machine ({_list_shares(column)})"
    if used[busiest] >= FULL:
        return f"one core of {'the load' if busiest == 'load' else f'each {busiest}'}, used to {used[busiest]:.0%}"
    return (
        f"neither a core nor the model: {column['closed.cores']:.1f} of {cores} cores are in use, "
        f"and the model computes {column['closed.compute']:.0%} of the time"
    )


def _list_shares(column: Mapping[str, float]) -> str:
    """Return each kind's share of the CPU, the largest first."""
    shares = {
        name.removeprefix("closed.cpu."): value for name, value in column.items() if name.startswith("closed.cpu.")
    }
    shares["everything else"] = shares.pop("others", 0.0)
    largest = sorted(shares.items(), key=lambda each: -each[1])
    return ", ".join(f"{name} {value / sum(shares.values()):.0%}" for name, value in largest if value)


def _describe(facts: Mapping[str, Any]) -> Iterator[str]:
    """Return lines about the models and the machine."""
    for name, model in sorted(facts["models"].items()):
        parameters = int(model["parameters"]) / 1e6
        yield f"{name}: {parameters:.3g} million parameters on {model['device']}, PyTorch {model['torch']}"
    if facts["gpu"] is None:
        yield from NO_GPU


def _format_value(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _format(title: str, cells: Iterable[str]) -> str:
    return f"{title:<{WIDTH}}" + "".join(f"{cell:>{CELL}}" for cell in cells)
