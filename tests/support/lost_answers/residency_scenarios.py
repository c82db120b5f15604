"""Scenarios of models that the queue loads and unloads. The stack has memory for all of them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from services.dispatcher.models.store import ModelStore
from services.dispatcher.residency.store import ResidencyStore
from tests.support.lost_answers.world import World, repeat

WORDS = {"text": ["an operator unloads what jobs wait for"]}


async def load_again(world: World) -> None:
    """An operator unloads a model. A job waits for it, so it is loaded again."""
    await asyncio.to_thread(world.stack.triton.models.unload, "words")
    await world.client.wait(await world.client.submit("words", WORDS))


async def follow_once(world: World) -> None:
    """What a dispatcher does when it starts, when a model drains, and once a minute."""
    await world.own.execute(
        "INSERT INTO served_models (name, version, worker, ready, decoupled, max_batch_size, instances, slots, inputs, "
        "outputs) VALUES ('drained', '1', 'gone', true, false, 1, 1, 1, '[]', '[]')"
    )
    await world.own.execute("INSERT INTO residencies (server, name, phase) VALUES ('gone:1', 'drained', 'absent')")
    async with world.database() as database:
        store = ResidencyStore(database, "test:2", "gone")
        await repeat(lambda: store.join(["drained"], 100))
        await repeat(lambda: ModelStore(database, "gone").find_known(["echo"]))
        await repeat(lambda: store.note_drains(["drained"]))
        await repeat(lambda: store.remove_others(["drained"], "nobody"))
        await repeat(store.leave)


SCENARIOS: Sequence[Any] = (load_again, follow_once)
