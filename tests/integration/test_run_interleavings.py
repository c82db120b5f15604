"""No order of actions of clients, dispatchers and sweepers makes a job of a step twice, or leaves a run for ever."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Literal, NamedTuple, TypeVar
from uuid import UUID

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from common.job_states import TERMINAL
from common.jobs.job import JobToRun
from common.postgres.database import Database
from tests.integration.jobs import LEASE, add_tenant, take
from tests.integration.runs import Runs
from tests.integration.test_interleavings import SETTINGS
from tests.integration.world import World

T = TypeVar("T")
RUNS = 2
ELEMENTS = 3
MODELS = ("a", "b", "c")

Kind = Literal["claim", "succeed", "fail", "hand back", "interrupt", "lapse", "cancel", "retry", "due", "overdue"]
# Most moves lead on, so that runs get as far as their ends.
KINDS = st.sampled_from(
    ["claim"] * 6
    + ["succeed"] * 8
    + ["hand back", "interrupt", "fail", "lapse", "cancel", "retry", "retry", "due", "overdue"]
)
ALL = """
SELECT id, parent, step, step_index, status, generation, outputs, error_code, callback_url
FROM jobs WHERE id = ANY($1::uuid[]) OR parent = ANY($1)
"""


class Move(NamedTuple):
    kind: Kind
    number: int  # of a run, or of a claim


MOVE = st.builds(Move, KINDS, st.integers(0, 11))


class RunLives(RuleBasedStateMachine):
    def __init__(self, runner: asyncio.Runner, database: Database, tenant: UUID) -> None:
        super().__init__()
        self.runner, self.database = runner, database
        self.world = World(database, tenant)
        self.act = Runs(self.world)
        self.runs: list[UUID] = []
        self.claims: list[JobToRun] = []  # lost ones too
        self.succeeded: dict[tuple[UUID, str, int], UUID] = {}  # the job of each element that has succeeded

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    @initialize()
    def begin(self) -> None:
        self.do(self.world.begin())
        self.runs = [self.do(self.act.begin(*map(float, range(ELEMENTS)))) for _ in range(RUNS)]

    @rule(moves=st.lists(MOVE, min_size=1, max_size=4))
    def race(self, moves: Sequence[Move]) -> None:
        """Make moves at the same time. Only the database orders them."""

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                for move in moves:
                    group.create_task(self.move(move))

        self.do(run())

    async def move(self, move: Move) -> None:
        run = self.runs[move.number % RUNS]
        claim = self.claims[-1 - move.number % len(self.claims)] if self.claims else None
        match move.kind:
            case "claim":
                self.claims += await take(self.database, 2, model=MODELS[move.number % len(MODELS)])
            case "succeed" if claim is not None:
                await self.act.succeed(claim)
            case "fail" if claim is not None:
                await self.act.fail(claim)
            case "hand back" | "interrupt" if claim is not None:
                await self.world.act(claim, move.kind)
            case "lapse":
                await self.world.pass_time(LEASE / 4 + 1)
                await self.world.sweep()
            case "cancel":
                await self.world.cancel(run)
            case "retry":
                await self.world.retry(run)
            case "due":
                await self.act.carry_due()
            case "overdue":
                await self.act.end_overdue()
            case _:
                pass

    @invariant()
    def each_element_has_one_job_and_keeps_its_success(self) -> None:
        rows = self.do(self.database.fetch(ALL, self.runs))
        elements = [(row["parent"], row["step"], row["step_index"]) for row in rows if row["parent"] is not None]
        assert len(elements) == len(set(elements))
        now = {(row["parent"], row["step"], row["step_index"]): row for row in rows if row["status"] == "succeeded"}
        for element, job in self.succeeded.items():
            assert now[element]["id"] == job  # no retry repeats what had succeeded
        self.succeeded = {element: row["id"] for element, row in now.items() if element[0] is not None}

    def teardown(self) -> None:
        """Check that all runs end from any state, and that those that succeeded have the right outputs."""
        for _ in range(3 * ELEMENTS + 20):
            self.do(self.world.pass_time(LEASE / 10))
            self.do(self.world.sweep())
            self.do(self.act.carry_due())
            for model in MODELS:
                for job in self.do(take(self.database, 50, model=model)):
                    self.do(self.act.succeed(job))
        self.do(self.world.pass_time(3600.0))
        self.do(self.act.end_overdue())
        for _ in range(3):
            self.do(self.world.sweep())
            self.do(self.world.pass_time(LEASE))
        self.each_element_has_one_job_and_keeps_its_success()
        rows = self.do(self.database.fetch(ALL, self.runs))
        left = [(row["parent"] is None, row["step"], row["status"]) for row in rows if row["status"] not in TERMINAL]
        assert not left
        for row in rows:
            if row["parent"] is None and row["status"] == "succeeded":
                outputs = {each["name"]: each["data"] for each in msgspec.json.decode(row["outputs"])}
                doubled = [2.0 * (value + 1) for value in range(ELEMENTS)]
                assert outputs == {"result": [sum(doubled)], "all": doubled}


def test_no_interleaving_makes_a_job_of_a_step_twice_or_leaves_a_run(database_url: str) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        database = runner.run(Database.connect(database_url, application="tests"))
        try:
            tenant = runner.run(add_tenant(database, "default"))
            machine: Any = lambda: RunLives(runner, database, tenant)  # noqa: E731 -- typed as a class, used as a factory
            run_state_machine_as_test(machine, settings=SETTINGS)
        finally:
            runner.run(database.close())
