"""Statements a second of each service while there is nothing to do, by PostgreSQL's log.

It logs each statement with the application that sent it. `BEGIN` and `COMMIT` count too: each is a round trip.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness.bench import SERVICES, Bench, Scenario
from benchmarks.harness.report import Figures, with_prefix
from deploy.local.servers.postgres import Postgres
from deploy.local.services import Service

SETTLE_SECONDS = 6.0  # after the start or the end of a service
LENGTH = 5  # how many times longer than other parts: some work is done every ten seconds
LINE = re.compile(r"^charonia-(\w+)\|LOG:  (?:execute [^:]*|statement):", re.MULTILINE)
LOGGING = {"log_statement": "all", "log_line_prefix": "%a|"}


def measure(bench: Bench) -> Iterator[Figures]:
    stack, seconds = bench.stack, bench.seconds * LENGTH
    log = stack.log_dir / "postgres.log"
    log_statements(stack.postgres)
    while True:
        time.sleep(SETTLE_SECONDS)
        one = measure_statements(log, seconds)
        with ExitStack() as closing:
            for first in stack.services:
                name = f"{first.kind}-2"
                second = Service(first.kind, first.port + 1, stack.environment, stack.log_dir, name=name)
                closing.callback(second.stop)
                second.start()
            time.sleep(SETTLE_SECONDS)
            two = measure_statements(log, seconds)
        more = {name: two[name] - one[name] for name in two}
        yield with_prefix("statements.first", one) | with_prefix("statements.further", more)


def log_statements(postgres: Postgres) -> None:
    for name, value in LOGGING.items():
        postgres.query(f"ALTER SYSTEM SET {name} = '{value}'")
    postgres.query("SELECT pg_reload_conf()")


def measure_statements(log: Path, seconds: float) -> Figures:
    """Return the statements a second of each kind of service from now on."""
    start = log.stat().st_size
    time.sleep(seconds)
    with log.open("rb") as file:
        file.seek(start)
        return count_statements(file.read().decode(), seconds)


def count_statements(text: str, seconds: float) -> Figures:
    """Return the statements a second in a log, by service."""
    found = Counter(LINE.findall(text))
    return {name: found[name] / seconds for name in SERVICES}


SCENARIO = Scenario(measure, {"length": LENGTH}, once=True)
