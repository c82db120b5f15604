"""Whatever dispatchers, sweepers and time do to jobs in whatever order: none is lost, none ends twice."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from common.database import Database
from common.jobs import TERMINAL, TRANSITIONS, Failure, Status
from services.dispatcher import retry
from services.dispatcher.store import ClaimedJob, Store
from services.gateway.store import Store as GatewayStore
from tests.integration.jobs import JobState, add_tenant, lapse, look, make_due, new_end, new_requeue, submit

T = TypeVar("T")
JOBS = 2
NUMBER = st.integers(0, 1000)
SETTINGS = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # every example is different rows, so nothing can be replayed or shrunk
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Life(RuleBasedStateMachine):
    def __init__(self, runner: asyncio.Runner, database: Database, tenant: UUID) -> None:
        super().__init__()
        self.runner, self.database, self.tenant = runner, database, tenant
        self.store = Store(database)
        self.jobs: list[UUID] = []
        self.claims: list[ClaimedJob] = []  # also those long lost
        self.last: dict[UUID, JobState] = {}

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    def pick(self, number: int) -> ClaimedJob | None:
        return self.claims[-1 - number % len(self.claims)] if self.claims else None

    def holds(self, job: ClaimedJob) -> bool:
        state = self.do(look(self.database, job.row.id))
        return state.status is Status.PROCESSING and state.claim == job.claim

    @initialize(attempts=st.lists(st.integers(1, 3), min_size=JOBS, max_size=JOBS), fallback=st.booleans())
    def submit(self, attempts: list[int], fallback: bool) -> None:
        for count in attempts:
            model = "small" if fallback else None
            options = {"max_attempts": count, "fallback_model": model, "initial_delay": 0.0}
            self.jobs.append(self.do(submit(self.database, self.tenant, **options)))

    @rule(numbers=st.lists(st.integers(0, JOBS - 1), min_size=1, max_size=JOBS + 1))
    def claim(self, numbers: list[int]) -> None:
        for job in self.do(self.store.claim_jobs([self.jobs[number] for number in numbers], "w", 1000.0)):
            assert self.last[job.row.id].status is Status.QUEUED
            assert job.claim == self.last[job.row.id].claim + 1
            self.claims.append(job)

    @rule(numbers=st.lists(NUMBER, min_size=1, max_size=3))
    def succeed(self, numbers: list[int]) -> None:
        jobs = [job for number in numbers if (job := self.pick(number))]
        holders = {job.row.id for job in jobs if self.holds(job)}
        ends = [new_end(job) for job in jobs]
        recorded = self.do(self.store.end_jobs(ends))
        assert {end.id for end in ends if end.event.id in recorded} == holders
        assert len(recorded) == len(holders)

    @rule(number=NUMBER, retryable=st.booleans(), interrupted=st.booleans(), chance=st.sampled_from([0.0, 0.5]))
    def fail(self, number: int, retryable: bool, interrupted: bool, chance: float) -> None:
        if job := self.pick(number):
            failure = Failure("inference_failed", "as it happens", retryable)
            outcome = retry.Interrupted(failure) if interrupted else retry.Attempted(failure)
            expected = self.holds(job)
            assert self.do(self.settle(job, outcome, chance)) == expected

    async def settle(self, job: ClaimedJob, outcome: retry.Attempted | retry.Interrupted, chance: float) -> bool:
        """As services/dispatcher/record.py does it; whether the job's row took it."""
        row = job.row
        policy = retry.Policy(
            row.attempt, row.max_attempts, job.interruptions, job.initial_delay, job.max_delay, job.fallback_model
        )
        match retry.decide(policy, outcome, chance):
            case retry.GiveBack():
                return bool(await self.store.requeue_jobs([new_requeue(job, given_back=True)]))
            case retry.Again(delay):
                return bool(await self.store.requeue_jobs([new_requeue(job, delay=delay)]))
            case retry.FallBack(model):
                return bool(await self.store.requeue_jobs([new_requeue(job, fallback=model)]))
            case retry.Fail():
                return bool(await self.store.end_jobs([new_end(job, Status.FAILED)]))

    @rule(numbers=st.lists(NUMBER, max_size=3))
    def renew(self, numbers: list[int]) -> None:
        jobs = [job for number in numbers if (job := self.pick(number))]
        expected = {job.row.id: False for job in jobs if self.holds(job)}
        assert self.do(self.store.renew_leases([(job.row.id, job.claim) for job in jobs], 1000.0)) == expected

    @rule(number=st.integers(0, JOBS - 1))
    def lapse(self, number: int) -> None:
        if self.last[self.jobs[number]].status is Status.PROCESSING:
            self.do(lapse(self.database, self.jobs[number]))

    @rule(number=st.integers(0, JOBS - 1))
    def run_out_of_time(self, number: int) -> None:
        statement = "UPDATE jobs SET expires_at = now() WHERE id = $1 AND status = 'queued'"
        self.do(self.database.fetch(statement, self.jobs[number]))

    @rule()
    def sweep(self) -> None:
        for job, _ in self.do(self.store.find_expired(100)):
            self.do(self.store.end_jobs([new_end(job, Status.EXPIRED, was="queued")]))
        for job, _ in self.do(self.store.find_abandoned(100)):
            self.do(self.settle(job, retry.Attempted(Failure("worker_lost", "lost", True)), 0.0))

    @invariant()
    def every_change_is_legal_and_no_job_is_lost(self) -> None:
        for job in self.jobs:
            state = self.do(look(self.database, job))
            before = self.last.get(job, state)
            assert state.status is before.status or state.status in TRANSITIONS[before.status]
            assert state.claim >= before.claim
            # Whatever is not ended will be found again: by its ring, or by its lease.
            assert (state.status in TERMINAL) == (state.ring_at is None and state.lease_until is None)
            ends = self.do(self.database.fetch("SELECT type FROM events WHERE job_id = $1", job))
            assert [end["type"] for end in ends] == ([f"job.{state.status}"] if state.status in TERMINAL else [])
            self.last[job] = state

    def teardown(self) -> None:
        """From wherever they are, all jobs come to an end."""
        for _ in range(2 * len(self.jobs)):
            for job in self.jobs:
                self.do(lapse_if_running(self.database, job))
            self.sweep()
            self.every_change_is_legal_and_no_job_is_lost()
            for job in self.jobs:
                self.do(make_due(self.database, job))
            self.claim(list(range(len(self.jobs))))
            self.every_change_is_legal_and_no_job_is_lost()
            self.succeed(list(range(len(self.claims))))
            self.every_change_is_legal_and_no_job_is_lost()
        assert all(state.status in TERMINAL for state in self.last.values())


async def lapse_if_running(database: Database, job: UUID) -> None:
    if (await look(database, job)).status is Status.PROCESSING:
        await lapse(database, job)


def test_no_interleaving_loses_a_job_or_ends_it_twice(database_url: str) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        database = runner.run(Database.connect(database_url, application="tests"))
        try:
            tenant = runner.run(add_tenant(GatewayStore(database), "default"))
            machine: Any = lambda: Life(runner, database, tenant)  # noqa: E731 -- typed as a class, used as a factory
            run_state_machine_as_test(machine, settings=SETTINGS)
        finally:
            runner.run(database.close())
