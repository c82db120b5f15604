"""What the database says of the jobs of a benchmark: each ran once, was told of once, and is over."""

import time

from benchmarks.speed import JobsLost
from common import sql
from deploy.local.postgres import DATABASE
from deploy.local.stack import Stack

COUNT = sql.load("benchmarks", "ledger.sql")["count_faults"]
NAMES = ("jobs not succeeded", "attempts too many", "events too many", "deliveries not made by one attempt")
WITHIN = 30.0  # seconds for what is written down after a webhook's arrival
LOOK = 0.2  # seconds


def check(stack: Stack) -> None:
    """Raise JobsLost unless every job in the database succeeded by one attempt, and one delivery."""
    deadline = time.monotonic() + WITHIN
    while True:
        counts = dict(zip(NAMES, stack.postgres.query(COUNT, DATABASE).split("|"), strict=True))
        wrong = {name: count for name, count in counts.items() if count != "0"}
        if not wrong:
            return
        if time.monotonic() > deadline:
            raise JobsLost(", ".join(f"{name}: {count}" for name, count in wrong.items()))
        time.sleep(LOOK)
