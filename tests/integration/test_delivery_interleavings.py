"""No order of the actions of notifiers, clients, crashes and time loses a delivery or gives it a second id.

None lets an ended subscription get a delivery, or an ordered one a later event before an earlier one.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from common.postgres.database import Database
from tests.integration.delivery_world import DeliveryWorld
from tests.integration.jobs import add_tenant
from tests.integration.notifier.steps import FAILED, GIVEN_UP, GONE, INTERNAL, LEASE, OK, Steps

T = TypeVar("T")
HOUR = 3600.0
SETTINGS = settings(
    max_examples=14,
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    database=None,
    suppress_health_check=list(HealthCheck),
)
RESULTS = [OK] * 4 + [FAILED, GIVEN_UP, GONE, INTERNAL]
KINDS = ["record"] * 6 + ["event", "take", "claim"] * 3 + ["sweep", "wait", "settle", "die"] * 2
CLIENT = ["redeliver", "enable", "delete", "erase", "order", "recover"]
KINDS += ["lost event", "lost claim", *CLIENT]


class Move(NamedTuple):
    kind: str
    notifier: int
    number: int
    result: int
    seconds: float


MOVE = st.builds(
    Move,
    st.sampled_from(KINDS),
    st.integers(0, 1),
    st.integers(0, 5),
    st.integers(0, len(RESULTS) - 1),
    st.sampled_from([1.0, 20.0, LEASE + 1, 3600.0]),
)


class DeliveryLives(RuleBasedStateMachine):
    def __init__(self, runner: asyncio.Runner, world: DeliveryWorld) -> None:
        super().__init__()
        self.runner, self.world = runner, world

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    @initialize()
    def begin(self) -> None:
        self.do(self.world.reset())

    @rule(move=MOVE)
    def step(self, move: Move) -> None:
        """Make a move alone. Then its claims can be judged."""
        assert self.do(self.find_wrong(self.move(move))) == []

    @rule(moves=st.lists(MOVE, min_size=2, max_size=4))
    def race(self, moves: list[Move]) -> None:
        """Make several moves at the same time. Only the database orders them."""

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                for move in moves:
                    group.create_task(self.move(move))

        self.do(run())

    async def find_wrong(self, move: Coroutine[Any, Any, list[UUID]]) -> list[UUID]:
        """Make a move. Return what it should not have claimed."""
        return await self.world.find_wrong(await move)

    async def move(self, move: Move) -> list[UUID]:
        """Return what was claimed."""
        if move.kind in CLIENT:
            await self.act(move)
            return []
        return await self.work(move, self.world.notifiers[move.notifier])

    async def act(self, move: Move) -> None:
        """Act as a client."""
        world = self.world
        match move.kind:
            case "redeliver":
                await world.redeliver(move.number)
            case "enable":
                await world.enable(move.number)
            case "delete" if move.seconds == 1.0:  # rarely: little is left to do after it
                await world.delete(move.number)
            case "erase":
                await world.erase(move.number)
            case "order":
                await world.change_order(move.number)
            case "recover":
                await world.recover(move.number)

    async def work(self, move: Move, notifier: Steps) -> list[UUID]:
        """Act as a notifier, or let time pass. Return what was claimed."""
        world = self.world
        match move.kind:
            case "event" | "lost event":
                await world.add_event(move.number, lose_message=move.kind == "lost event")
            case "take":
                return await world.take(notifier)
            case "lost claim":
                await world.take_and_lose()
            case "sweep":
                return await world.sweep(notifier)
            case "claim":
                return await world.claim(notifier)
            case "record":
                await world.record(move.number, RESULTS[move.result])
            case "settle":
                await world.settle(notifier)
            case "die":
                await world.take(notifier)
                world.crash(notifier)
            case "wait":
                await world.pass_time(move.seconds)
        return []

    @invariant()
    def every_webhook_has_one_id(self) -> None:
        assert all(len(ids) == 1 for ids in self.world.sent.values())

    def teardown(self) -> None:
        """Check that all deliveries end from any state, even after every notifier dies."""
        for notifier in self.world.notifiers:
            self.world.crash(notifier)
        for _ in range(40):
            if not self.do(self.world.find_pending()):
                break
            self.do(self.finish_some())
        assert self.do(self.world.find_pending()) == []

    async def finish_some(self) -> None:
        world, notifier = self.world, self.world.notifiers[0]
        await world.pass_time(HOUR)
        assert await self.find_wrong(world.sweep(notifier)) == []
        assert await self.find_wrong(world.claim(notifier)) == []
        for number in range(len(world.claims)):
            await world.record(number, OK)


def test_no_interleaving_loses_a_delivery_or_gives_it_a_second_id(database_url: str) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        database = runner.run(Database.connect(database_url, application="tests"))
        try:
            world = DeliveryWorld(database, runner.run(add_tenant(database, "default")))
            machine: Any = lambda: DeliveryLives(runner, world)  # noqa: E731 -- typed as a class, used as a factory
            run_state_machine_as_test(machine, settings=SETTINGS)
        finally:
            runner.run(database.close())
