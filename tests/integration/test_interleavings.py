"""No order of the actions of clients, dispatchers, sweepers and time loses a job or ends it twice.

The jobs are one batch, which completes once. An erased job leaves no event, and never runs again.
"""

import asyncio
from collections import Counter
from collections.abc import Container, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from common.job_states import TERMINAL, Status
from common.jobs.job import JobToRun
from common.jobs.promote import promote_jobs
from common.postgres.database import Database
from services.dispatcher.sessions.lost_sessions import FREE_SECONDS
from services.gateway.jobs.actions.retry import RETRYABLE
from tests.integration import history
from tests.integration.history import RUNNING
from tests.integration.jobs import LEASE, JobState, add_tenant, look, look_at_all, make_due, promote_suspect
from tests.integration.moves import DAY, JOBS, MOVE, OPTIONS, Move
from tests.integration.world import CANCELING, OUTCOMES, QUEUED, Action, World

T = TypeVar("T")
YEAR = 366 * DAY
DEAD = 2  # the session of a dispatcher that died
SETTINGS = settings(
    max_examples=14,
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # every example is different rows, so nothing can be replayed or shrunk
    database=None,
    suppress_health_check=list(HealthCheck),
)


class JobLives(RuleBasedStateMachine):
    def __init__(self, runner: asyncio.Runner, database: Database, tenant: UUID) -> None:
        super().__init__()
        self.runner, self.database = runner, database
        self.world = World(database, tenant)
        self.jobs: list[UUID] = []
        self.wants_started: set[UUID] = set()  # jobs whose client subscribed to job.started
        self.claims: list[JobToRun] = []  # lost ones too
        self.revived: Counter[UUID] = Counter()
        self.now: dict[UUID, JobState] = {}
        self.erased: set[UUID] = set()

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    @initialize(options=st.lists(OPTIONS, min_size=JOBS, max_size=JOBS))
    def submit(self, options: list[dict[str, Any]]) -> None:
        self.do(self.world.begin())
        wants_started = [each.pop("wants_started") for each in options]
        for each, wants in zip(options, wants_started, strict=True):
            each["run_at"] = datetime.now(UTC) + timedelta(seconds=50) if each.pop("scheduled") else None
            each |= {"callback_url": "https://a", "callback_events": ["job.started"]} if wants else {}
        self.jobs = self.do(self.world.submit_batch(options))
        self.wants_started = {job for job, wants in zip(self.jobs, wants_started, strict=True) if wants}

    @rule(move=MOVE)
    def step(self, move: Move) -> None:
        """Make one move at a time, so that its outcome is known in advance."""
        job = self.jobs[move.job]
        before = self.now[job].status
        match move.kind:
            case "claim":
                assert all(self.now[each.id].status is QUEUED for each in self.do(self.claim()))
            case "act":
                self.act(job, move.action)
            case "act late":
                self.act_late(move.action)
            case "freeze":
                self.freeze()
            case "crash":
                self.crash()
            case "cancel":
                expected = None if before in TERMINAL else Status.CANCELED if before is QUEUED else CANCELING
                assert self.do(self.world.cancel(job)) == expected
            case "erase":
                expected_erased = None if before not in TERMINAL else job not in self.erased
                assert self.do(self.world.erase(job)) is expected_erased
            case "complete":
                ended = all(self.now[each].status in TERMINAL for each in self.jobs)
                completed = len(self.do(history.list_completions(self.database)))
                assert self.do(self.world.completer.scan()) == (ended and not completed)
            case "retry":
                self.check_revived(self.do(self.revive(move)), [job], RETRYABLE, move.model)
            case "replay":
                self.check_revived(self.do(self.revive(move)), self.jobs, [Status.FAILED], move.model)
            case _:
                self.do(self.move(move))

    @rule(moves=st.lists(MOVE, min_size=2, max_size=4))
    def race(self, moves: list[Move]) -> None:
        """Make several moves at the same time. Only the database orders them."""

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                for move in moves:
                    group.create_task(self.move(move))

        self.do(run())

    async def move(self, move: Move) -> None:
        match move.kind:
            case "act" | "act late" if self.claims:
                await self.world.act(self.claims[-1 - move.job % len(self.claims)], move.action)
            case "cancel":
                await self.world.cancel(self.jobs[move.job])
            case "retry" | "replay":
                await self.revive(move)
            case "erase":
                await self.world.erase(self.jobs[move.job])
            case "complete":
                await self.world.completer.scan()
            case "sweep" | "sweep late":
                await self.world.sweep(late=move.kind == "sweep late")
            case "wait":
                await self.world.pass_time(move.seconds)
            case _:
                await self.claim()

    async def answer_lost_wake_ups(self) -> list[JobToRun]:
        return await self.world.answer(await self.world.find_lost_wake_ups())

    async def claim(self, session: int | None = None) -> list[JobToRun]:
        """Claim after a wake-up for each job, one of them doubled."""
        claimed = await self.world.claim([*self.jobs, self.jobs[0]], session)
        self.claims += claimed
        return claimed

    def act(self, job: UUID, action: Action) -> None:
        """Act under the job's last claim. Claim a queued job first."""
        if self.now[job].status is QUEUED:
            self.do(make_due(self.database, job))
            self.do(promote_jobs(self.world.database, JOBS))
            self.do(promote_suspect(self.world.database))
            self.do(self.claim())
            self.every_step_was_legal_and_no_job_is_lost()
        claims = [claim for claim in self.claims if claim.id == job]
        if claims:
            before = self.now[job].status
            expected = OUTCOMES[action][before] if self.holds(claims[-1]) else {before}
            self.do(self.world.act(claims[-1], action))
            assert self.do(look(self.database, job)).status in expected

    def act_late(self, action: Action) -> None:
        """Act under a lost claim: nothing changes."""
        lost = [job for job in self.claims if not self.holds(job)]
        rivals = [job for job in lost if self.now[job.id].status in RUNNING]  # another claim holds the job
        for job in (rivals or lost)[-1:]:
            before = self.do(self.world.show(job.id))
            self.do(self.world.act(job, action))
            assert self.do(self.world.show(job.id)) == before

    def freeze(self) -> None:
        """A dispatcher claims the jobs and freezes until after their leases. Another dispatcher claims them then."""
        self.do(self.claim())
        for seconds in (LEASE + 1, DAY):
            self.do(self.world.pass_time(seconds))
            self.do(self.world.sweep())
        self.do(self.claim())

    def crash(self) -> None:
        """A dispatcher claims the jobs and dies. A sweeper sees that, long before the leases lapse."""
        claimed = self.do(self.claim(DEAD))
        for _ in range(2):
            self.do(self.world.sweep())
            self.do(self.world.pass_time(FREE_SECONDS))
        self.do(self.world.sweep())
        self.every_step_was_legal_and_no_job_is_lost()
        assert not any(self.holds(job) for job in claimed)

    def holds(self, job: JobToRun) -> bool:
        state = self.now[job.id]
        return state.status in RUNNING and state.claim == job.claim

    async def revive(self, move: Move) -> set[UUID]:
        if move.kind == "retry":
            revived = await self.world.retry(self.jobs[move.job], move.model)
        else:
            revived = await self.world.replay(self.jobs, move.model)
        self.revived.update(revived)
        return revived

    def check_revived(
        self, revived: set[UUID], jobs: Sequence[UUID], states: Container[Status], model: str | None
    ) -> None:
        possible = {job for job in jobs if self.now[job].status in states} - self.erased
        assert revived == (set() if model == "other" else possible)

    @invariant()
    def every_step_was_legal_and_no_job_is_lost(self) -> None:
        self.now |= self.do(look_at_all(self.database, self.jobs))
        for job, kept in self.do(history.read(self.database, self.jobs)).items():
            history.check_findable(self.now[job])
            assert self.now[job].expires_at is None or not self.revived[job]  # only the first run has the deadline
            self.erased |= {job} if kept.erased else set()
            announced = self.world.wake_ups.all
            history.check(job, kept, announced, revived=self.revived[job], wants_started=job in self.wants_started)

    @invariant()
    def the_batch_completes_once_and_with_all_jobs_ended(self) -> None:
        completions = self.do(history.list_completions(self.database))
        assert len(completions) <= 1
        for body in completions:
            ended = sum(count for status, count in body.data.counts.items() if status in TERMINAL)
            assert ended == len(self.jobs), body

    def teardown(self) -> None:
        """Check that all jobs end from any state, even after every wake-up is lost."""
        for _ in range(3):
            self.do(self.world.pass_time(YEAR))
            self.world.wake_ups.take()
            self.do(self.world.sweep())
            self.every_step_was_legal_and_no_job_is_lost()
            self.world.wake_ups.take()
            for job in self.do(self.answer_lost_wake_ups()):
                self.claims.append(job)
                self.do(self.world.act(job, "succeed"))
            self.every_step_was_legal_and_no_job_is_lost()
        assert all(state.status in TERMINAL for state in self.now.values())
        self.do(self.world.completer.scan())
        assert len(self.do(history.list_completions(self.database))) == 1


def test_no_interleaving_loses_a_job_or_ends_it_twice(database_url: str) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        database = runner.run(Database.connect(database_url, application="tests"))
        try:
            runner.run(history.install_history(database))
            tenant = runner.run(add_tenant(database, "default"))
            machine: Any = lambda: JobLives(runner, database, tenant)  # noqa: E731 -- typed as a class, used as a factory
            run_state_machine_as_test(machine, settings=SETTINGS)
        finally:
            runner.run(database.close())
