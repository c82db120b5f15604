"""Reads the limits of models and tenants."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from common.job_states import Priority
from common.jobs.announced import read_wake_up
from common.postgres import sql
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUp

QUERIES = sql.load("services.dispatcher.claims")


class Limits(NamedTuple):
    """The models with limits, the paused tenants, and by model the tenants on probation."""

    models: frozenset[str]
    paused_tenants: frozenset[UUID]
    on_probation: Mapping[str, frozenset[UUID]] = {}


class LimitStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_limits(self) -> Limits:
        record = await self._database.fetch_one(QUERIES["list_limits"])
        assert record is not None, "the query returns one row"
        on_probation: defaultdict[str, set[UUID]] = defaultdict(set)
        for model, tenant in zip(record["probation_models"], record["probation_tenants"], strict=True):
            on_probation[model].add(tenant)
        tenants = {model: frozenset(found) for model, found in on_probation.items()}
        return Limits(frozenset(record["models"]), frozenset(record["paused_tenants"]), tenants)

    async def find_next_jobs(self, model: str, count: int) -> list[WakeUp]:
        """Return wake-ups for up to `count` claimable jobs of each priority of a model."""
        found = await self._database.fetch(QUERIES["find_next_jobs"], model, count, list(Priority))
        return [read_wake_up(record) for record in found]
