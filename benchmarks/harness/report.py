"""Figures of several rounds, and what they depend on: the machine, the versions and the commit."""

import os
import platform
import re
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import msgspec

from deploy.local.processes.ports import HOST
from deploy.local.servers.rabbitmq import find_scripts
from deploy.local.settings import ROOT
from deploy.local.stack import Stack

Figures = dict[str, float]
LIBRARIES = ("aio-pika", "asyncpg", "httpx", "aiohttp", "litestar", "msgspec", "tritonclient", "uvicorn", "uvloop")
ROW = "{:<34} {:>10} {:>10} {:>10}"
DETAIL_WIDTH = 42
DETAIL_SHARE = 0.05  # of its column, for a detail to be shown


class Figure(msgspec.Struct):
    """What one figure was over the rounds."""

    median: float
    min: float
    max: float


def with_prefix(prefix: str, figures: Mapping[str, float]) -> Figures:
    return {f"{prefix}.{name}": value for name, value in figures.items()}


def pick(figures: Mapping[str, float], *names: str) -> Figures:
    """Return the figures with these names, or with names below them."""
    return {name: value for name, value in figures.items() if name.startswith(names)}


def percentiles(name: str, values: Sequence[float]) -> Figures:
    """Return the median, the 99th percentile and the largest of many latencies, in milliseconds."""
    if len(values) < 2:
        return {}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {f"{name}.p50": cuts[49], f"{name}.p99": cuts[98], f"{name}.max": max(values)}


def summarize(rounds: Sequence[Figures]) -> dict[str, Figure]:
    """Return each figure's median and spread over the rounds that have it."""
    values: dict[str, list[float]] = {}
    for figures in rounds:
        for name, value in figures.items():
            values.setdefault(name, []).append(value)
    return {name: Figure(*map(round_figure, (statistics.median(v), min(v), max(v)))) for name, v in values.items()}


def round_figure(value: float) -> float:
    """Keep four digits."""
    return float(f"{value:.4g}")


def format_table(figures: Mapping[str, Figure]) -> Iterator[str]:
    """Return the table, line by line, and then the tables of details."""
    yield ROW.format("", "median", "min", "max")
    details: dict[str, dict[str, dict[str, float]]] = {}  # medians by group, part and item
    for name, figure in figures.items():
        path, _, item = name.partition("/")
        if item:
            part, _, group = path.rpartition(".")
            details.setdefault(group, {}).setdefault(part, {})[item] = figure.median
        else:
            yield ROW.format(name, *(f"{value:g}" for value in msgspec.structs.astuple(figure)))
    for group, parts in details.items():
        yield from ["", *_format_details(group, parts)]


def _format_details(group: str, parts: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Return a table of medians: a column for each part, and a row for each item that has its share of one."""
    widths = [max(DETAIL_WIDTH // 4, len(part) + 1) for part in parts]
    yield f"{group:<{DETAIL_WIDTH}}" + "".join(f"{part:>{width}}" for part, width in zip(parts, widths, strict=True))
    totals = [sum(column.values()) for column in parts.values()]
    for item in dict.fromkeys(item for column in parts.values() for item in column):
        values = [column.get(item, 0.0) for column in parts.values()]
        if any(value > DETAIL_SHARE * total for value, total in zip(values, totals, strict=True)):
            cells = (f"{value:>{width}.3g}" for value, width in zip(values, widths, strict=True))
            yield f"{item:<{DETAIL_WIDTH}}" + "".join(cells)


def describe(stack: Stack) -> dict[str, Any]:
    """Return the facts about this machine and a running stack."""
    url = f"http://{HOST}:{stack.settings.triton_http_port}/v2"
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "cpu": _find("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _find("/proc/meminfo", "MemTotal"),
        "load": os.getloadavg(),  # before the first round; the CPU time of `others` says more
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "postgresql": stack.postgres.query("SHOW server_version"),
        "rabbitmq": find_scripts().parent.name,
        "triton": httpx.get(url, trust_env=False).json()["version"] if stack.triton in stack.servers else None,
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _git(*arguments: str) -> str:
    """Return what git prints: nothing where there is no git, or no repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def _find(path: str, name: str) -> str:
    found = re.search(rf"^{name}\s*: *(.*)$", Path(path).read_text(), re.MULTILINE)
    return found[1] if found else "unknown"
