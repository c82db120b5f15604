"""Finds the jobs that a retry may queue again."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from common.job_states import Status, read_text
from common.postgres import sql
from common.postgres.database import Database

QUERIES = sql.load("services.gateway.jobs.actions")


class RetryableJob(NamedTuple):
    """A job that may be retried, and the bytes of its packed inputs."""

    id: UUID
    size: int


class Kin(NamedTuple):
    """A run, or the job of a step, which has a parent."""

    parent: UUID | None
    step: str | None
    is_run: bool


class JobState(NamedTuple):
    """What a job is now."""

    status: Status
    erased: bool


class RetryStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_retryable(
        self, tenant_id: UUID, jobs: Sequence[UUID], statuses: Sequence[Status]
    ) -> list[RetryableJob]:
        """Return those of the tenant's jobs that have one of these statuses and are not erased."""
        found = await self._database.fetch(QUERIES["find_retryable_jobs"], tenant_id, jobs, statuses)
        return [RetryableJob(*record.values()) for record in found]

    async def find_kin(self, tenant_id: UUID, jobs: Sequence[UUID]) -> dict[UUID, Kin]:
        """Return those of the tenant's jobs that are runs, or of steps."""
        found = await self._database.fetch(QUERIES["find_kin"], tenant_id, jobs)
        return {record["id"]: Kin(record["parent"], record["step"], record["is_run"]) for record in found}

    async def find_states(self, tenant_id: UUID, jobs: Sequence[UUID]) -> dict[UUID, JobState]:
        """Return those of the jobs that the tenant has."""
        found = await self._database.fetch(QUERIES["find_job_states"], tenant_id, jobs)
        return {record["id"]: JobState(read_text(Status, record["status"]), record["erased"]) for record in found}

    async def read_inputs(self, tenant_id: UUID, jobs: Sequence[UUID]) -> dict[UUID, bytes]:
        """Return the packed inputs of the tenant's jobs, but not of erased ones."""
        found = await self._database.fetch(QUERIES["read_packed_inputs"], tenant_id, jobs)
        return {record["job_id"]: record["tensors"] for record in found}

    async def list_job_models(self, tenant_id: UUID, jobs: Sequence[UUID]) -> list[tuple[str, str | None]]:
        """Return each model, with a fallback model, that one of the tenant's jobs has."""
        found = await self._database.fetch(QUERIES["list_job_models"], tenant_id, jobs)
        return [(record["model"], record["fallback_model"]) for record in found]
