"""A client with a pipeline of three steps."""

from typing import Any
from uuid import UUID

import msgspec

from common import ids
from common.pipelines.definition import PipelineDefinition
from common.postgres.database import Database
from common.tensors import Datatype, Signature
from services.gateway.auth.store import Key
from services.gateway.events.store import START, EventStore
from services.gateway.jobs.idempotency.keys import parse_request_key
from services.gateway.jobs.store import JobFilter, JobStore, StepPlace
from services.gateway.jobs.submit import SubmittedJob
from services.gateway.pipelines.store import NewPipeline, PipelineWriter
from tests.integration.jobs import TRACEPARENT, claim
from tests.integration.runs import CHAIN, OUTPUTS, Runs
from tests.integration.submitters import new_body_lease, new_submitter
from tests.integration.world import World

INPUTS = [Signature("x", Datatype.FP32, [-1])]
VALUES = {"x": [1.0, 2.0, 3.0]}
FIRST = StepPlace()


class Client:
    """A client with a pipeline of three steps: see `tests.integration.runs`."""

    def __init__(self, database: Database, tenant: UUID) -> None:
        self.world = World(database, tenant)
        self.runs = Runs(self.world)
        self.database, self.tenant = database, tenant
        self.key = Key(ids.new(), tenant)
        self.submitter = new_submitter(database, self.world.wake_ups)
        self.store = JobStore(database)

    async def begin(self) -> None:
        await self.world.begin()
        definition = msgspec.convert(CHAIN, PipelineDefinition)
        await PipelineWriter(self.database).add(self.key, NewPipeline("chain", definition, INPUTS, OUTPUTS))

    async def submit(self, key: str | None = None, **fields: Any) -> SubmittedJob:
        body = msgspec.json.encode({"model": "chain", "inputs": VALUES} | fields)
        context = await self.submitter.make_context(self.key, TRACEPARENT, parse_request_key(key, body))
        return await self.submitter.submit(body, context, new_body_lease())

    async def find(self, run: UUID) -> Any:
        found = await self.store.find_job(run, self.tenant)
        assert found is not None
        return found.row

    async def end(self, run: UUID) -> None:
        """Let all models work until the run has ended."""
        for step in ("first", "each", "last"):
            await self.runs.infer(run, step)

    async def fail(self, run: UUID) -> None:
        """Let the second element of `each` fail."""
        await self.runs.infer(run, "first")
        jobs = await self.list_steps(run, step="each")
        await self.runs.succeed(await claim(self.database, jobs[0]))
        await self.runs.fail(await claim(self.database, jobs[1]))

    async def list_steps(self, run: UUID, after: StepPlace = FIRST, limit: int = 100, **filters: Any) -> list[UUID]:
        found = await self.store.list_step_jobs(self.tenant, JobFilter(parent=run, **filters), after, limit)
        return [each.row.id for each in found]

    async def list_jobs(self, **filters: Any) -> list[UUID]:
        return [row.id for row in await self.store.list_jobs(self.tenant, JobFilter(**filters), None, 100)]

    async def read_history(self, run: UUID) -> list[Any]:
        return await EventStore(self.database).list_history(run, START, 100, 100_000)
