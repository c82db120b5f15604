"""Gateways and dispatchers that share results, on one database without a broker."""

import struct
from typing import Any
from uuid import UUID

import msgspec

from common import ids
from common.jobs.end import end_jobs
from common.jobs.job import JobToRun
from common.jobs.twins import MAX_KEYS
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.publisher import Publisher
from common.tensors import Datatype, Signature
from common.views.job import JobUrls
from services.dispatcher.results.run_progress import RunProgress
from services.dispatcher.results.unsettled_keys import UnsettledKeys
from services.dispatcher.reuse.settler import Settler
from services.dispatcher.reuse.sweeper import ReuseSweeper
from services.dispatcher.triton.model_version import ModelVersion
from services.gateway.auth.store import Key
from services.gateway.jobs.idempotency.store import RequestKey
from services.gateway.jobs.submit import SubmittedJob
from tests.integration.jobs import TRACEPARENT, new_end, take
from tests.integration.stores import Stores
from tests.integration.submitters import new_body_lease, new_submitter
from tests.support.carrier import make_carrier
from tests.support.recorded_wake_ups import RecordedWakeUps

FLAT = [Signature("x", Datatype.FP32, [-1])]
RESULT = b'[{"name":"y","datatype":"FP32","shape":[1],"data":[2.0]}]'
RAW = struct.pack("<f", 1.0)


class Sharers:
    """Two gateways, and a dispatcher that settles."""

    def __init__(self, database: Database, tenant: UUID) -> None:
        self.database = database
        self.tenant = tenant
        self.wake_ups = RecordedWakeUps()
        changes = ChangePublisher(Publisher("amqp://127.0.0.1:1/", "tests"))
        self.gateways = [new_submitter(database, self.wake_ups) for _ in range(2)]
        runs = RunProgress(database, make_carrier(database), changes)
        self.unsettled = UnsettledKeys()
        self.settler = Settler(database, runs, self.unsettled, self.wake_ups, changes, JobUrls())
        self.sweeper = ReuseSweeper(database, self.unsettled, 0.5)
        self.load = ids.new()

    async def offer(self, **settings: str) -> None:
        """Let a dispatcher serve the model, loaded once more. Gateways know it at their next read."""
        self.load = ids.new()
        store = Stores(self.database).models
        await store.save_models([(ModelVersion("echo", "1", False, 0, 1, FLAT, [], settings), True)])
        await self.database.fetch("UPDATE served_models SET load_id = $1", self.load)
        self.restart()

    def restart(self) -> None:
        """Let gateways forget what they know."""
        self.gateways = [new_submitter(self.database, self.wake_ups) for _ in range(2)]

    async def submit(
        self, gateway: int = 0, tenant: UUID | None = None, request_key: RequestKey | None = None, **body: Any
    ) -> SubmittedJob:
        """Submit a job. By default it takes results of a minute."""
        request = {"model": "echo", "inputs": {"x": [1.0]}, "reuse": {"max_age": 60}} | body
        encoded = msgspec.json.encode({name: value for name, value in request.items() if value != "absent"})
        submitter = self.gateways[gateway]
        context = await submitter.make_context(Key(ids.new(), tenant or self.tenant), TRACEPARENT, request_key)
        return await submitter.submit(encoded, context, new_body_lease())

    async def run(self, *, settles: bool = True, **changes: Any) -> JobToRun:
        """Run the job whose turn it is, and settle its group, unless the dispatcher was killed before."""
        (job,) = await take(self.database)
        return await self.end(job, settles=settles, **changes)

    async def end(self, job: JobToRun, *, settles: bool = True, **changes: Any) -> JobToRun:
        """End a job, and settle its group, unless the dispatcher was killed before."""

        values: dict[str, Any] = {"version": "1", "load_id": self.load, "outputs": RESULT, "inference_ms": 5.0}
        values["finished_at"] = job.started_at
        assert await end_jobs(self.database, [new_end(job, **values | changes)])
        if settles:
            self.unsettled.note([job.reuse])
            await self.settle()
        return job

    async def sweep(self) -> float:
        """Settle what the sweep finds. Return for how many seconds it pauses."""
        pause = await self.sweeper.sweep()
        await self.settle()
        return pause

    async def settle(self) -> None:
        """Settle all groups that are noted."""
        while self.unsettled:
            await self.settler.settle(await self.unsettled.take(MAX_KEYS))

    async def states(self) -> dict[UUID, str]:
        """Return the status of each job, or `waits` of one that waits for its twin."""
        found = await self.database.fetch(
            "SELECT id, CASE WHEN scheduled_at = 'infinity' THEN 'waits' ELSE status END AS status FROM jobs"
        )
        return {record["id"]: record["status"] for record in found}
