"""Late jobs, whose messages were lost, start in slots that would idle."""

import asyncio
from typing import cast

from common.job_states import Priority
from services.dispatcher.attempts.slot_filler import SlotFiller
from services.dispatcher.claims.claims import Claims
from services.dispatcher.models.served_model import ServedModel


class LateJobs:
    """So many are left."""

    def __init__(self, count: int) -> None:
        self.count = count

    def has_late(self, _model: ServedModel, _priority: Priority) -> bool:
        return self.count > 0


async def test_a_job_whose_message_waits_for_a_slot_goes_first() -> None:
    model, late, started = ServedModel("echo", asyncio.Event()), LateJobs(2), list[str]()
    model.concurrency.resize(1)
    model.available.set()

    async def run_late() -> bool:
        started.append("late")
        late.count -= 1
        model.release(probe=False)
        return True

    async def run_with_message() -> None:
        await model.acquire(Priority.NORMAL)
        started.append("with a message")
        model.release(probe=False)

    await model.acquire(Priority.NORMAL)
    filler = SlotFiller(cast("Claims", late), lambda *_: asyncio.create_task(run_late()))
    filler.note_claim(model, Priority.NORMAL)
    await asyncio.sleep(0)
    running = asyncio.create_task(run_with_message())
    await asyncio.sleep(0)
    model.release(probe=False)
    async with asyncio.timeout(20):
        await asyncio.gather(running, *filler._tasks.values())
    assert started == ["with a message", "late", "late"]
