"""Reads which models jobs wait for, and which ones run."""

from collections.abc import Collection
from typing import NamedTuple

from common.job_states import Priority
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.dispatcher.residency")
MAX_JOBS = 1000  # that are counted of a model and a priority
MAX_TENANTS = 100  # the same, whose jobs are counted


class Demand(NamedTuple):
    """What waits for a model, and what runs. Times are seconds of the database's clock, since 1970."""

    waiting: int = 0
    since: float | None = None  # when the oldest could run
    deadline: float | None = None  # when the first expires
    priority: Priority | None = None  # the highest
    running: int = 0  # at the dispatchers of this Triton


NO_DEMAND = Demand()


async def measure_demand(database: Database, server: str, models: Collection[str]) -> dict[str, Demand]:
    """Return the demand for each of these models for which there is any. Raises Unavailable.

    It looks at MAX_JOBS of a model and a priority, so a long queue costs no more.
    """
    found = await database.fetch(QUERIES["measure_demand"], list(models), MAX_JOBS, MAX_TENANTS, server)
    return {
        row["model"]: Demand(
            waiting=row["waiting"],
            since=row["since"],
            deadline=row["deadline"],
            priority=row["priority"] and Priority(row["priority"]),
            running=row["running"],
        )
        for row in found
    }
