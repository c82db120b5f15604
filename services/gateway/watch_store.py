"""The statements about what happened to jobs, one function each."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from common import sql
from common.database import Database
from common.jobs import Status

QUERIES = sql.load("services.gateway", "watch.sql")


class Stamp(NamedTuple):
    """What changes whenever something happens to a job."""

    status: Status
    claim: int


class WatchStore:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def find_stamps(self, jobs: Sequence[UUID]) -> dict[UUID, Stamp]:
        found = await self.database.fetch(QUERIES["find_stamps"], jobs)
        return {record["id"]: Stamp(Status(record["status"]), record["claim"]) for record in found}
