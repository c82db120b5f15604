"""Figures of one number of instances: what is computed from what was measured."""

import re
from collections.abc import Mapping

from benchmarks.harness.report import Figures

INSTANCE = re.compile(r"^cpu\.(gateway|dispatcher|notifier)(-\d+)?$")
RATIOS = {  # each is the quotient of two others
    "ratio": ("closed.rate", "direct.rate"),
    "compute.ratio": ("closed.compute", "direct.compute"),
    "busy.ratio": ("closed.busy", "direct.busy"),
    "first.ratio": ("few.stream.first.p50", "few.direct.first.p50"),
    "tokens.ratio": ("many.stream.rate", "many.direct.rate"),
}
DIFFERENCES = {
    "first.more.p50": ("few.stream.first.p50", "few.direct.first.p50"),
    "first.more.p99": ("few.stream.first.p99", "few.direct.first.p99"),
}


def group_by_kind(load: Mapping[str, float]) -> Figures:
    """Return CPU-ms per job by kind of process, how many cores the busiest of each kind used, and all together."""
    cpu: Figures = {}
    cores: Figures = {}
    for name, value in load.items():
        if not name.startswith("cpu."):
            continue
        found = INSTANCE.match(name)
        kind = found[1] if found else name.removeprefix("cpu.")
        used = value * load["jobs"] / load["took"] / 1000
        cpu[f"cpu.{kind}"] = cpu.get(f"cpu.{kind}", 0.0) + value
        cores[f"cores.{kind}"] = max(cores.get(f"cores.{kind}", 0.0), used)
        cores["cores"] = cores.get("cores", 0.0) + used
    return cpu | cores


def compare(figures: Mapping[str, float]) -> Figures:
    """Return the ratios and differences of the figures that are there; a ratio to nothing is left out."""
    found: Figures = {}
    for name, (ours, base) in RATIOS.items():
        if ours in figures and figures.get(base):
            found[name] = figures[ours] / figures[base]
    for name, (ours, base) in DIFFERENCES.items():
        if ours in figures and base in figures:
            found[name] = figures[ours] - figures[base]
    return found
