"""Adds runs. A run that is due begins in the transaction that adds it, so its first jobs exist with it.

One that divides a file waits for the sweep of runs, which reads that file. A gateway does not: its connections are few.
"""

from common.jobs.input_files import lock_files
from common.jobs.new_job import JobFile, NewJob
from common.jobs.run import lock_runs
from common.jobs.submit import JobTimes
from common.jobs.submit_run import add_runs, use_key
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUpPublisher
from common.runs.pipelines import Pipelines
from common.runs.progress import RunCarrier
from common.telemetry.metrics import PIPELINES, jobs_ended


class RunSubmitter:
    def __init__(
        self, database: Database, carrier: RunCarrier, pipelines: Pipelines, wake_ups: WakeUpPublisher
    ) -> None:
        self._database = database
        self._carrier = carrier
        self._pipelines = pipelines
        self._wake_ups = wake_ups

    async def add(self, run: NewJob) -> JobTimes | JobFile | None:
        """Add a run, and begin it if it is due. Return its times.

        Return a file that it reads and that is gone, or None if its idempotency key is in use. Then nothing is added.

        Raises LargeInputsLost if a sweeper has taken a large input.
        """
        carried = None
        async with self._database.transaction() as connection:
            if gone := await lock_files(connection, [run]):
                return gone[run.id]
            if not await use_key(connection, run):
                return None
            pipeline = await self._pipelines.find(connection, run.tenant_id, run.model, int(run.version or 0))
            wait = pipeline.divides_file(run.tensors)
            times = (await add_runs(connection, [run], wait=wait))[run.id]
            if not wait and times.run_at <= times.created_at:
                ((begun, now),) = await lock_runs(connection, [run.id])
                carried = await self._carrier.begin(connection, begun, now, pipeline)
        if carried is not None:
            self._wake_ups.announce(carried.wake_ups)
            if carried.status is not None:
                jobs_ended.labels(PIPELINES, carried.status).inc()
        return times
