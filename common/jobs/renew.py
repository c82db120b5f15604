"""Renews the leases of running jobs."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from common.job_states import Status
from common.jobs.job import ClaimKey
from common.jobs.moves import Moves, stay
from common.postgres import statements
from common.postgres.statements import Executor

STATEMENTS = statements.load("common.jobs", "renew.sql")
MOVES = (Moves("renew_leases", stay(Status.PROCESSING, Status.CANCELING)),)


class HeldClaim(NamedTuple):
    """A claim that is still held. `renewed`: its lease was renewed; otherwise the job was locked."""

    renewed: bool
    canceling: bool


class _Claim(NamedTuple):
    id: UUID
    claim: int


async def renew_leases(executor: Executor, claims: Sequence[ClaimKey], lease: float) -> dict[ClaimKey, HeldClaim]:
    """Return the claims that are still held, each with whether a cancel was requested. `lease` is in seconds."""
    found = await STATEMENTS["renew_leases"].run(executor, claims=[_Claim(*each) for each in claims], lease=lease)
    return {(each["id"], each["claim"]): HeldClaim(each["renewed"], each["canceling"]) for each in found}
