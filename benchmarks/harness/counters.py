"""What PostgreSQL has counted: rows, commits, write-ahead log and statements.

Names with a slash are details: the part before it is the group, and the part behind it is the table or the statement.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.harness.report import Figures
from deploy.local.errors import NotReady
from deploy.local.servers.postgres import Postgres

# PostgreSQL's statement statistics are kept in the database `postgres`, and know those of all databases.
OPTIONS = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_planning": "on"}
EXTENSION = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"
# A session reports what it has counted when a transaction ends, but not within a second of its last report.
# It reports the rest when it has been idle for ten seconds.
REPORT_SECONDS, IDLE_REPORT_SECONDS = 1.0, 10.0
MARGIN_SECONDS = 0.2
SETTLE_SECONDS = 30.0  # until a session that does not become idle is an error
POLL_SECONDS = 0.5
NAME_LENGTH = 40  # of a statement without a name


class Counters(NamedTuple):
    """The values at a time of time.monotonic(). Statements have calls and milliseconds."""

    at: float
    values: Mapping[str, float]
    statements: Mapping[str, tuple[float, float]]


class CounterMeter:
    """Measures what happens in one database, from one reading to the next. Each reading waits for late reports."""

    def __init__(self, postgres: Postgres, database: str, queries: Mapping[str, str]) -> None:
        self._postgres, self._database, self._queries = postgres, database, queries
        postgres.query(EXTENSION)
        self._last = self._read_settled(time.monotonic())

    def read_idle(self) -> Figures:
        """Return the figures per second since the last reading."""
        before, self._last = self._last, self._read_settled(time.monotonic())
        return subtract(before, self._last, self._last.at - before.at)

    def read(self, ended: float, jobs: float, idle: Mapping[str, float]) -> Figures:
        """Return the figures per job since the last reading until `ended`; those of idle services are per second."""
        before, self._last = self._last, self._read_settled(ended)
        return subtract(before, self._last, jobs, idle, self._last.at - ended)

    def _read_settled(self, ended: float) -> Counters:
        while not is_settled(json.loads(self._query("list_sessions")), time.monotonic() - ended):
            if time.monotonic() > ended + SETTLE_SECONDS:
                raise NotReady(f"PostgreSQL's sessions do not become idle within {SETTLE_SECONDS:g} s")
            time.sleep(POLL_SECONDS)
        values = json.loads(self._postgres.query(self._queries["read_counters"], self._database))
        statements = json.loads(self._query("list_statements"))
        own = (row[1:] for row in statements if row[0] == self._database)
        return Counters(time.monotonic(), values, group_statements(own))

    def _query(self, name: str) -> str:
        return self._postgres.query(self._queries[name])


def is_settled(sessions: Iterable[tuple[str, float]], seconds: float) -> bool:
    """Return whether all sessions have reported what they did until `seconds` ago.

    A session has done so if it has been idle for long, or if it has ended a transaction long enough after that.
    """
    return all(
        state == "idle" and (idle > IDLE_REPORT_SECONDS + MARGIN_SECONDS or idle < seconds - REPORT_SECONDS)
        for state, idle in sessions
    )


def group_statements(rows: Iterable[Sequence[str | float]]) -> dict[str, tuple[float, float]]:
    """Return calls and milliseconds by the name in a statement's first line, or by its beginning."""
    found: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for query, calls, took in rows:
        first = str(query).split("\n", 1)[0]
        name = first.removeprefix("-- ") if first.startswith("-- ") else " ".join(str(query).split())[:NAME_LENGTH]
        found[name] = found[name][0] + float(calls), found[name][1] + float(took)
    return dict(found)


def subtract(
    before: Counters,
    after: Counters,
    divisor: float,
    idle: Mapping[str, float] = MappingProxyType({}),
    late: float = 0.0,
) -> Figures:
    """Return what came between two readings, per job or second, without what idle services do in `late` seconds."""

    def divide(name: str, value: float) -> float:
        return max(0.0, value - idle.get(name, 0.0) * late) / divisor

    figures = {name: divide(name, value - before.values.get(name, 0.0)) for name, value in after.values.items()}
    for name, (calls, took) in after.statements.items():
        calls_before, took_before = before.statements.get(name, (0.0, 0.0))
        figures[f"calls/{name}"] = divide(f"calls/{name}", calls - calls_before)
        figures[f"statements/{name}"] = divide(f"statements/{name}", took - took_before)
    totals = {
        group: sum(value for name, value in figures.items() if name.startswith(f"{group}/"))
        for group in ("rows", "statements")
    }
    return totals | {name: value for name, value in figures.items() if value or "/" not in name}
