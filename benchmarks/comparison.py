"""A result beside the last one of the same kind that was committed."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.report import Figure
from deploy.local.settings import ROOT

FACTS = ("cpu", "cores", "memory", "system", "python", "postgresql", "rabbitmq", "triton")
ROW = "{title:<70} {then:>9} {now:>9} {change:>9}"


class Result(msgspec.Struct):
    """What is needed of a result's file; `what` was measured, and how, by `setup`."""

    name: str
    at: str
    commit: str
    setup: dict[str, Any]
    figures: dict[str, Figure]
    cpu: str
    cores: int
    memory: str
    system: str
    python: str
    postgresql: str
    rabbitmq: str
    triton: str | None
    what: str = ""  # results of before have none


def find_last(what: str, directory: Path) -> Result | None:
    """Return the newest result of this kind among those that git has, as it was committed last."""
    listed = _git("ls-tree", "--name-only", "HEAD", f"{directory.relative_to(ROOT)}/").decode().splitlines()
    files = (_git("show", f"HEAD:{name}") for name in listed if name.endswith(".json"))
    results = (msgspec.json.decode(file, type=Result) for file in files)
    return max((each for each in results if each.what == what), key=lambda each: each.at, default=None)


def compare(then: Result, now: Result, titles: Mapping[str, str]) -> Iterator[str]:
    """Return the medians of both with a title, line by line, after all that makes them hard to compare."""
    yield f"Compared with {then.name}.json, of {then.at}, commit {then.commit[:9]}:"
    for name, (old, new) in _differ(then, now).items():
        yield f"  NOT THE SAME {name}: {old} then, {new} now"
    yield ROW.format(title="", then="then", now="now", change="now/then")
    for name, title in titles.items():
        if name in then.figures and name in now.figures:
            old, new = then.figures[name].median, now.figures[name].median
            change = f"{new / old:.2f}" if old else ""
            yield ROW.format(title=title, then=f"{old:g}", now=f"{new:g}", change=change)


def _differ(then: Result, now: Result) -> dict[str, tuple[object, object]]:
    """The facts about the machine, and the setup, that are not what they were."""
    pairs = {name: (getattr(then, name), getattr(now, name)) for name in FACTS}
    names = sorted(then.setup.keys() | now.setup.keys())
    pairs |= {name: (then.setup.get(name), now.setup.get(name)) for name in names}
    return {name: (old, new) for name, (old, new) in pairs.items() if old != new}


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, timeout=10, check=False).stdout
