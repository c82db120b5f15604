"""The tables of log events, from the calls that write them. Their meanings stay as people wrote them on the page."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from deploy.docs.markdown import read_last_cells, table
from deploy.local.settings import ROOT

FOLDERS = {
    "every-service": "common",
    "gateway": "services/gateway",
    "dispatcher": "services/dispatcher",
    "notifier": "services/notifier",
}
LEVELS = {
    "info": "info",
    "warning": "warning",
    "warn_once": "warning",
    "error": "error",
    "exception": "error",
    "tolerate": "warning",
}
LOGGERS = ("log", "log.logger", "outage", "self._outage")
# The events whose names end in a status, by their beginning.
EXPANSIONS = {
    ("services/gateway", "job."): ("job.canceled", "job.canceling"),
    ("services/dispatcher", "job."): ("job.canceled", "job.expired", "job.failed", "job.succeeded"),
    ("services/notifier", "delivery."): (
        "delivery.exhausted",
        "delivery.failed",
        "delivery.postponed",
        "delivery.succeeded",
    ),
}


def write_events(folder: str, page: str) -> str:
    levels: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / folder).rglob("*.py")):
        for event, level in find_events(folder, ast.parse(path.read_text())):
            levels[event].add(level)
    meanings = read_last_cells(page)
    rows = ((f"`{event}`", ", ".join(sorted(levels[event])), meanings.get(event, "")) for event in sorted(levels))
    return table(("event", "level", "meaning"), rows)


def find_events(folder: str, module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name and level of each event that a module logs."""
    assigned = {
        node.targets[0].id: node.value
        for node in ast.walk(module)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and node.args and (levels := find_levels(node.func, assigned)):
            for event in find_names(folder, node.args[0], assigned):
                for level in levels:
                    yield event, level


def find_levels(called: ast.expr, assigned: dict[str, ast.expr]) -> set[str]:
    """Return the levels at which a call logs: none if it does not."""
    match called:
        case ast.Attribute(attr=level) if level in LEVELS and ast.unparse(called.value) in LOGGERS:
            return {LEVELS[level]}
        case ast.Name(id=name) if isinstance(choice := assigned.get(name), ast.IfExp):
            return find_levels(choice.body, assigned) | find_levels(choice.orelse, assigned)
        case _:
            return set()


def find_names(folder: str, name: ast.expr, assigned: dict[str, ast.expr]) -> Iterator[str]:
    match name:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=[ast.Constant(value=str(beginning)), _]):
            yield from EXPANSIONS[folder, beginning]
        case ast.IfExp():
            yield from find_names(folder, name.body, assigned)
            yield from find_names(folder, name.orelse, assigned)
        case ast.Name(id=variable):
            yield from find_names(folder, assigned[variable], assigned)
        case _:
            raise ValueError(f"the event of a log line is not a literal: {ast.unparse(name)}")
