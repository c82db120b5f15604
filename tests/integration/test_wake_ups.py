"""A queue with claimable jobs has wake-ups, or the reconciler finds them missing. A lost wake-up strands no job."""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, get_args
from uuid import UUID

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from common.job_states import Priority
from common.jobs.job import JobToRun
from common.postgres.database import Database
from common.rabbitmq.messages import QueuedJob
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.models.served_model import ServedModel
from tests.integration.jobs import LEASE, add_tenant, submit
from tests.integration.world import Action, World
from tests.support.recorded_wake_ups import Queue

T = TypeVar("T")
SETTINGS = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    database=None,
    suppress_health_check=list(HealthCheck),
)
CLAIMABLE = """
SELECT model, priority, count(*)
FROM jobs
WHERE status = 'queued' AND scheduled_at IS NULL
  AND (expires_at IS NULL OR expires_at > now() OR started_at IS NOT NULL)
GROUP BY model, priority
"""


class Dispatcher:
    def __init__(self, world: World) -> None:
        self.claims = Claims(world.database, RunLimits(world.stores.limits, list), worker="w", lease=LEASE)
        self.models = {name: ServedModel(name, asyncio.Event()) for name in ("echo", "small")}
        for model in self.models.values():
            model.available.set()

    async def answer(self, queue: Queue, job: QueuedJob, slots: int) -> JobToRun | None:
        """Claim a job as after a message. Without slots, jobs compete."""
        model = self.models[queue[0]]
        model.concurrency.limit = float(slots)
        self.claims.note_announced(model, queue[1], [job])
        return await self.claims.claim(model, queue[1])


class WakeUps(RuleBasedStateMachine):
    def __init__(self, runner: asyncio.Runner, world: World, tenants: list[UUID]) -> None:
        super().__init__()
        self.runner, self.world, self.tenants = runner, world, tenants
        self.dispatchers = [Dispatcher(world) for _ in range(2)]
        self.jobs: list[UUID] = []
        self.claimed: list[JobToRun] = []
        self.queues = defaultdict[Queue, list[QueuedJob]](list)  # the wake-ups in the broker

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    @initialize()
    def begin(self) -> None:
        self.do(self.world.begin())
        self.queues.clear()

    @rule(
        tenant=st.integers(0, 1),
        number=st.integers(1, 4),
        priority=st.sampled_from([Priority.NORMAL, Priority.HIGH]),
        scheduled=st.booleans(),
        expires_in=st.sampled_from([None, 30.0]),
    )
    def submit(self, tenant: int, number: int, priority: Priority, scheduled: bool, expires_in: float | None) -> None:
        run_at = datetime.now(UTC) + timedelta(seconds=50) if scheduled else None
        options = {"priority": priority, "run_at": run_at, "expires_in": expires_in, "fallback_model": "small"}
        for _ in range(number):
            self.jobs.append(self.do(submit(self.world.database, self.tenants[tenant], **options)))
            if not scheduled:
                self.queues["echo", priority].append(QueuedJob(self.tenants[tenant], self.jobs[-1]))

    @rule(number=st.integers(1, 4), slots=st.integers(0, 1))
    def answer(self, number: int, slots: int) -> None:
        """Two dispatchers answer wake-ups at the same time."""

        async def run() -> None:
            wake_ups = self.take_wake_ups(number)
            answers = [self.dispatchers[index % 2].answer(*each, slots) for index, each in enumerate(wake_ups)]
            self.claimed += [job for job in await asyncio.gather(*answers) if job is not None]

        self.do(run())

    @rule(action=st.sampled_from(get_args(Action)), number=st.integers(1, 4))
    def act(self, action: Action, number: int) -> None:
        """Act on the jobs that were claimed last."""
        for job in self.claimed[-number:]:
            self.do(self.world.act(job, action))

    @rule(which=st.integers(0, 100), again=st.booleans())
    def cancel(self, which: int, again: bool) -> None:
        if self.jobs:
            job = self.jobs[which % len(self.jobs)]
            self.do(self.world.cancel(job))
            if again:
                self.do(self.world.retry(job))
            self.add_wake_ups(self.world.wake_ups.take_jobs())

    @rule(seconds=st.sampled_from([1.0, 5.0, 55.0, LEASE + 1]))
    def wait(self, seconds: float) -> None:
        self.do(self.world.pass_time(seconds))

    @rule()
    def sweep(self) -> None:
        self.do(self.world.sweep())

    @rule(number=st.integers(1, 8))
    def lose(self, number: int) -> None:
        """The broker loses messages."""
        for jobs in self.queues.values():
            del jobs[:number]

    @rule()
    def reconcile(self) -> None:
        found = self.do(self.world.find_lost_wake_ups())
        self.add_wake_ups({queue: jobs for queue, jobs in found.items() if not self.queues[queue]})

    @invariant()
    def the_reconciler_sees_every_queue_with_claimable_jobs(self) -> None:
        self.add_wake_ups(self.world.wake_ups.take_jobs())
        claimable = self.do(self.world.database.fetch(CLAIMABLE))
        found = self.do(self.world.find_lost_wake_ups())
        for model, priority, jobs in claimable:
            assert len(found[model, Priority(priority)]) >= jobs

    def teardown(self) -> None:
        """Check that no claimable job is left when all wake-ups are answered, lost ones after reconciling."""
        self.do(self.world.sweep())
        self.add_wake_ups(self.world.wake_ups.take_jobs())
        for _ in range(1000):
            if not self.do(self.world.database.fetch(CLAIMABLE)):
                return
            self.reconcile()
            self.answer(4, 1)
        raise AssertionError("claimable jobs are left")

    def add_wake_ups(self, jobs: Mapping[Queue, list[QueuedJob]]) -> None:
        for queue, announced in jobs.items():
            self.queues[queue] += announced

    def take_wake_ups(self, number: int) -> list[tuple[Queue, QueuedJob]]:
        """Take up to `number` wake-ups of each queue."""
        taken = [(queue, job) for queue, jobs in self.queues.items() for job in jobs[:number]]
        self.lose(number)
        return taken


def test_no_claimable_job_is_left_without_a_wake_up(database_url: str) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        database = runner.run(Database.connect(database_url, application="tests"))
        try:
            tenants = [runner.run(add_tenant(database, name)) for name in ("a", "b")]
            machine: Any = lambda: WakeUps(runner, World(database, tenants[0]), tenants)  # noqa: E731 -- a factory
            run_state_machine_as_test(machine, settings=SETTINGS)
        finally:
            runner.run(database.close())
