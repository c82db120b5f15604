"""What a dispatcher runs so that the queue decides what its Triton holds."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from common.postgres.database import Database
from common.postgres.leadership import Leadership, LeaseStore, Loops
from common.telemetry.logs import Log
from common.telemetry.outage import Outage
from services.dispatcher.models.catalogue import Catalogue
from services.dispatcher.residency.followers import Follower
from services.dispatcher.residency.memory import Meter
from services.dispatcher.residency.planner import Limits, Planner
from services.dispatcher.residency.store import ResidencyStore
from services.dispatcher.settings import DispatcherSettings
from services.dispatcher.triton.client import TritonClient

RETRY_SECONDS = 1.0

log = Log("residency")


def make_loops(
    settings: DispatcherSettings, database: Database, triton: TritonClient, catalogue: Catalogue, server: str
) -> Mapping[str, Coroutine[Any, Any, None]]:
    """Return what runs until the dispatcher stops, by name. Without CHARONIA_MODEL_MEMORY it follows no plan."""
    store = ResidencyStore(database, server, settings.worker)
    if settings.budget is None:
        return {"residency": leave(store)}
    follower = Follower(store, catalogue.models, catalogue.refresh_requested, settings.models, settings.budget)
    limits = Limits(settings.budget, settings.model_max_wait, settings.model_idle or None)
    lease, meter = LeaseStore(database, store.role), Meter(settings.triton_metrics_url)

    def begin() -> Loops:
        return {"planner": Planner(database, store, triton, meter, limits, lease.holder).run}

    async def lead() -> None:
        await follower.joined.wait()  # the role has a row from then on
        await Leadership(lease, begin, is_fit=lambda: catalogue.is_up).run()

    return {"residency": lead(), "residency follower": follower.run()}


async def leave(store: ResidencyStore) -> None:
    """Forget that a dispatcher of the same name managed memory, then wait until cancelled."""
    outage, has_left = Outage(), False
    while not has_left:
        with outage.tolerate("residency.database_unavailable", log):
            await store.leave()
            has_left = True
        await asyncio.sleep(RETRY_SECONDS)
    await asyncio.Event().wait()
