"""A doorbell's right: to claim one job of its queue, whichever is the fairest."""

import asyncio
from enum import Enum
from functools import partial

from common.batching import Batcher
from common.errors import Retry
from common.jobs import Priority
from services.dispatcher.catalogue import Runnable
from services.dispatcher.store import ClaimedJob, Store
from services.dispatcher.turns import NONE

LIMIT = 50  # claims in one statement, which looks at as many tenants and twice as many jobs of each
LOOKS = 50
LOOK_SECONDS = 0.02  # between two looks, where others hold what is queued: as a rule a claim that commits in a moment


class Empty(Enum):
    """Why a right got no job."""

    NOTHING = "nothing is queued"
    HELD = "what is queued is held by others"  # or was not looked at


Got = ClaimedJob | Empty


class Claims:
    def __init__(self, store: Store, *, worker: str, lease: float) -> None:
        """A lease is in seconds."""
        self.store = store
        self.worker = worker
        self.lease = lease
        self.batchers: dict[tuple[str, Priority], Batcher[None, Got]] = {}

    async def claim(self, model: Runnable, priority: Priority) -> ClaimedJob | None:
        """The next job of the model and class, None where none is queued; raises Unavailable, or Retry where all that
        is queued stays held."""
        key = model.name, priority
        if key not in self.batchers:
            self.batchers[key] = Batcher(partial(self.take, model, priority), name="claims", limit=LIMIT)
        for _ in range(LOOKS):
            match await self.batchers[key].submit(None):
                case ClaimedJob() as job:
                    return job
                case Empty.NOTHING:
                    return None
                case Empty.HELD:
                    await asyncio.sleep(LOOK_SECONDS)
        raise Retry(Empty.HELD.value)

    async def take(self, model: Runnable, priority: Priority, rights: list[None]) -> list[Got]:
        """One look for as many jobs as there are rights."""
        turns = model.turns
        place = turns.next(priority)
        claimed = await self.store.claim_jobs(
            model.name, priority, len(rights), place, turns.running, self.worker, self.lease
        )
        for job in claimed.jobs:
            turns.begin(job.row.tenant_id, job.row.id, priority)
        missing = len(rights) - len(claimed.jobs)
        if missing:
            turns.miss(priority)
        empty = Empty.HELD if claimed.contended or place.job != NONE else Empty.NOTHING
        return [*claimed.jobs, *[empty] * missing]
