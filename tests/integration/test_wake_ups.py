"""At any time there are at least as many wake-ups on their way as claimable jobs."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, get_args
from uuid import UUID

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from common.jobs import Priority
from common.postgres.database import Database
from common.rabbitmq import topology
from services.dispatcher.claims.claimed_job import ClaimedJob
from services.dispatcher.claims.claims import Claims
from services.dispatcher.models.served_model import ServedModel
from tests.integration.jobs import LEASE, add_tenant, submit
from tests.integration.world import Action, World

T = TypeVar("T")
Queue = tuple[str, Priority]
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
WHERE next_wake_up_at > run_at AND (expires_at IS NULL OR expires_at > now() OR started_at IS NOT NULL)
GROUP BY model, priority
"""
WAKE_UPS = "SELECT routing_key FROM outbox WHERE exchange = $1"
TAKE_WAKE_UP = """
DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE exchange = $1 AND routing_key = $2 LIMIT 1) RETURNING id
"""


class Dispatcher:
    def __init__(self, world: World) -> None:
        self.claims = Claims(world.stores.claims, worker="w", lease=LEASE)
        self.models = {name: ServedModel(name, asyncio.Event()) for name in ("echo", "small")}

    async def answer(self, queue: Queue) -> ClaimedJob | None:
        return await self.claims.claim(self.models[queue[0]], queue[1])


class WakeUps(RuleBasedStateMachine):
    def __init__(self, runner: asyncio.Runner, world: World, tenants: list[UUID]) -> None:
        super().__init__()
        self.runner, self.world, self.tenants = runner, world, tenants
        self.dispatchers = [Dispatcher(world) for _ in range(2)]
        self.jobs: list[UUID] = []
        self.claimed: list[ClaimedJob] = []

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    @initialize()
    def begin(self) -> None:
        self.do(self.world.begin())

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

    @rule(number=st.integers(1, 4))
    def answer(self, number: int) -> None:
        """Two dispatchers answer wake-ups at the same time."""

        async def run() -> None:
            queues = await self.take_wake_ups(number)
            answers = [self.dispatchers[index % 2].answer(queue) for index, queue in enumerate(queues)]
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

    @rule(seconds=st.sampled_from([1.0, 5.0, 55.0, LEASE + 1]))
    def wait(self, seconds: float) -> None:
        self.do(self.world.pass_time(seconds))

    @rule()
    def sweep(self) -> None:
        self.do(self.world.sweep())

    @invariant()
    def each_claimable_job_has_a_wake_up(self) -> None:
        claimable = self.do(self.world.database.fetch(CLAIMABLE))
        wake_ups = Counter(
            record["routing_key"] for record in self.do(self.world.database.fetch(WAKE_UPS, topology.JOBS_EXCHANGE))
        )
        for model, priority, jobs in claimable:
            assert wake_ups[topology.job_key(priority, model)] >= jobs

    def teardown(self) -> None:
        """Check that no claimable job is left when all wake-ups are answered."""
        self.do(self.world.sweep())
        while self.do(self.world.database.fetch(WAKE_UPS, topology.JOBS_EXCHANGE)):
            self.answer(4)
        assert self.do(self.world.database.fetch(CLAIMABLE)) == []

    async def take_wake_ups(self, number: int) -> list[Queue]:
        """Take up to `number` wake-ups of each queue."""
        queues = [(model, priority) for model in ("echo", "small") for priority in Priority for _ in range(number)]
        return [queue for queue in queues if await self.take_wake_up(*queue)]

    async def take_wake_up(self, model: str, priority: Priority) -> bool:
        return bool(
            await self.world.database.fetch(TAKE_WAKE_UP, topology.JOBS_EXCHANGE, topology.job_key(priority, model))
        )


def test_no_claimable_job_is_left_without_a_wake_up(database_url: str) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        database = runner.run(Database.connect(database_url, application="tests"))
        try:
            tenants = [runner.run(add_tenant(database, name)) for name in ("a", "b")]
            machine: Any = lambda: WakeUps(runner, World(database, tenants[0]), tenants)  # noqa: E731 -- a factory
            run_state_machine_as_test(machine, settings=SETTINGS)
        finally:
            runner.run(database.close())
