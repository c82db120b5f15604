"""Whatever clients, dispatchers, sweepers and time do to jobs in whatever order: none is lost, none ends twice."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, get_args
from uuid import UUID

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from common.database import Database
from common.jobs import TERMINAL, Status
from services.dispatcher.store import ClaimedJob
from services.gateway.control import RETRYABLE
from services.gateway.store import Store as GatewayStore
from tests.integration import history
from tests.integration.history import RUNNING
from tests.integration.jobs import LEASE, JobState, add_tenant, look, submit
from tests.integration.world import MODELS, OUTCOMES, Deed, World

T = TypeVar("T")
JOBS = 2
DAY, YEAR = 86_400.0, 366 * 86_400.0
SETTINGS = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # every example is different rows, so nothing can be replayed or shrunk
    database=None,
    suppress_health_check=list(HealthCheck),
)
NUMBER = st.integers(0, 1000)
DEED = st.sampled_from(get_args(Deed))
MODEL = st.sampled_from([None, *MODELS])
OPTIONS = st.fixed_dictionaries(
    {
        "max_attempts": st.integers(1, 3),
        "initial_delay": st.sampled_from([0.0, 10.0]),
        "fallback_model": st.sampled_from([None, "small"]),
        "expires_in": st.sampled_from([None, 30.0]),
        "scheduled": st.booleans(),
        "wants_started": st.booleans(),
    }
)
MOVE = st.tuples(st.sampled_from(["claim", "act", "cancel", "retry", "replay", "sweep", "sweep late"]), NUMBER, DEED)


class Life(RuleBasedStateMachine):
    def __init__(self, runner: asyncio.Runner, database: Database, tenant: UUID) -> None:
        super().__init__()
        self.runner, self.database = runner, database
        self.world = World(database, tenant)
        self.jobs: list[UUID] = []
        self.telling: set[UUID] = set()  # jobs whose client wants to hear of their start
        self.claims: list[ClaimedJob] = []  # also those long lost
        self.revived: Counter[UUID] = Counter()
        self.now: dict[UUID, JobState] = {}

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    def holds(self, job: ClaimedJob) -> bool:
        state = self.now[job.row.id]
        return state.status in RUNNING and state.claim == job.claim

    def job(self, number: int) -> UUID:
        return self.jobs[number % JOBS]

    @initialize(options=st.lists(OPTIONS, min_size=JOBS, max_size=JOBS))
    def submit(self, options: list[dict[str, Any]]) -> None:
        self.do(self.world.begin())
        for each in options:
            scheduled, wants_started = each.pop("scheduled"), each.pop("wants_started")
            run_at = datetime.now(UTC) + timedelta(seconds=50) if scheduled else None
            events = {"callback_url": "https://a", "callback_events": ["job.started"]} if wants_started else {}
            self.jobs.append(self.do(submit(self.database, self.world.tenant, run_at=run_at, **each, **events)))
            if wants_started:
                self.telling.add(self.jobs[-1])

    @rule(numbers=st.lists(NUMBER, min_size=1, max_size=JOBS + 1))
    def claim(self, numbers: list[int]) -> None:
        for job in self.do(self.start(numbers)):
            assert self.now[job.row.id].status is Status.QUEUED

    async def start(self, numbers: list[int]) -> list[ClaimedJob]:
        claimed = await self.world.claim([self.job(number) for number in numbers])
        self.claims += claimed
        return claimed

    @rule(number=NUMBER, deed=DEED)
    def act(self, number: int, deed: Deed) -> None:
        """Under one of the last claims, because those may still be held."""
        if not self.claims:
            return
        job = self.claims[-1 - number % min(len(self.claims), 3)]
        before = self.now[job.row.id].status
        expected = OUTCOMES[deed][before] if self.holds(job) else {before}
        self.do(self.world.act(job, deed))
        assert self.do(look(self.database, job.row.id)).status in expected

    @rule()
    def freeze(self) -> None:
        """A dispatcher takes what there is and freezes for longer than its leases; another one takes it then."""
        self.claim([*range(JOBS)])
        for seconds in (LEASE + 1, DAY):
            self.do(self.world.pass_time(seconds))
            self.do(self.world.sweep())
        self.do(self.start([*range(JOBS)]))

    @rule(number=NUMBER, deed=DEED)
    def act_late(self, number: int, deed: Deed) -> None:
        """A zombie's deed, under a claim that was taken away from it, changes nothing."""
        lost = [job for job in self.claims if not self.holds(job)]
        rivals = [job for job in lost if self.now[job.row.id].status in RUNNING]  # somebody else holds the job
        if not lost:
            return
        job = (rivals or lost)[-1 - number % len(rivals or lost)]
        before = self.do(self.world.show(job.row.id))
        self.do(self.world.act(job, deed))
        assert self.do(self.world.show(job.row.id)) == before

    @rule(number=NUMBER)
    def cancel(self, number: int) -> None:
        before = self.now[self.job(number)].status
        expected = None if before in TERMINAL else Status.CANCELED if before is Status.QUEUED else Status.CANCELING
        assert self.do(self.world.cancel(self.job(number))) == expected

    @rule(number=NUMBER, model=MODEL)
    def retry(self, number: int, model: str | None) -> None:
        job = self.job(number)
        revived = self.do(self.revive(self.world.retry(job, model)))
        assert revived == ({job} if self.now[job].status in RETRYABLE and model != "other" else set())

    @rule(numbers=st.lists(NUMBER, min_size=1, max_size=JOBS), model=MODEL)
    def replay(self, numbers: list[int], model: str | None) -> None:
        jobs = {self.job(number) for number in numbers}
        revived = self.do(self.revive(self.world.replay([*jobs], model)))
        assert revived == {job for job in jobs if self.now[job].status is Status.FAILED and model != "other"}

    async def revive(self, reviving: Coroutine[Any, Any, set[UUID]]) -> set[UUID]:
        self.revived.update(revived := await reviving)
        return revived

    @rule(late=st.booleans())
    def sweep(self, late: bool) -> None:
        self.do(self.world.sweep(late=late))

    @rule(seconds=st.sampled_from([1.0, 40.0, LEASE + 1, DAY]))
    def pass_time(self, seconds: float) -> None:
        self.do(self.world.pass_time(seconds))

    @rule(moves=st.lists(MOVE, min_size=2, max_size=4))
    def race(self, moves: list[tuple[str, int, Deed]]) -> None:
        """Several at the same time: only the database orders them."""

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                for move in moves:
                    group.create_task(self.move(*move))

        self.do(run())

    async def move(self, kind: str, number: int, deed: Deed) -> None:
        job = self.job(number)
        match kind:
            case "claim":
                await self.start([0, 1])
            case "act" if self.claims:
                await self.world.act(self.claims[-1 - number % len(self.claims)], deed)
            case "cancel":
                await self.world.cancel(job)
            case "retry":
                await self.revive(self.world.retry(job, "small" if number % 2 else None))
            case "replay":
                await self.revive(self.world.replay(self.jobs))
            case "sweep" | "sweep late":
                await self.world.sweep(late=kind == "sweep late")

    @invariant()
    def every_step_was_legal_and_no_job_is_lost(self) -> None:
        for job in self.jobs:
            state = self.now[job] = self.do(look(self.database, job))
            history.check_findable(state)
            assert state.expires_at is None or not self.revived[job]  # the deadline was the first life's
            kept = self.do(history.read(self.database, job))
            history.check(job, kept, revived=self.revived[job], wants_started=job in self.telling)

    def teardown(self) -> None:
        """Though every doorbell is lost, all jobs come to an end from wherever they are."""
        self.do(self.world.take_doorbells())
        for _ in range(3):
            self.do(self.world.pass_time(YEAR))  # longer than any has waited: so much later it is rung again
            self.do(self.world.sweep())
            self.every_step_was_legal_and_no_job_is_lost()
            for job in self.do(self.world.answer_doorbells()):
                self.claims.append(job)
                self.do(self.world.act(job, "succeed"))
            self.every_step_was_legal_and_no_job_is_lost()
        assert all(state.status in TERMINAL for state in self.now.values())


def test_no_interleaving_loses_a_job_or_ends_it_twice(database_url: str) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        database = runner.run(Database.connect(database_url, application="tests"))
        try:
            runner.run(history.install(database))
            tenant = runner.run(add_tenant(GatewayStore(database), "default"))
            machine: Any = lambda: Life(runner, database, tenant)  # noqa: E731 -- typed as a class, used as a factory
            run_state_machine_as_test(machine, settings=SETTINGS)
        finally:
            runner.run(database.close())
