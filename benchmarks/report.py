"""Figures of several rounds as a table for people and as JSON for later comparisons."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

ROW = "{title:<66} {median:>9} {least:>9} {most:>9}"


class Figure(msgspec.Struct):
    median: float
    min: float
    max: float


def spread(name: str, values: list[float]) -> dict[str, float]:
    """Return what is told of many times, in milliseconds."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {f"{name}.p50": cuts[49], f"{name}.p99": cuts[98], f"{name}.max": max(values)}


def summarise(rounds: Sequence[Mapping[str, float]]) -> dict[str, Figure]:
    """Return each figure's median and spread over the rounds that have it."""
    names = dict.fromkeys(name for each in rounds for name in each)
    return {name: _figure([each[name] for each in rounds if name in each]) for name in names}


def lay_out(figures: Mapping[str, Figure], titles: Mapping[str, str], groups: Mapping[str, str]) -> Iterator[str]:
    """Return the table, line by line: figures by their titles, then all those of a group by what follows its prefix."""
    yield ROW.format(title="", median="median", least="min", most="max")
    for name, title in titles.items():
        yield _row(title, figures[name])
    for prefix, title in groups.items():
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
