"""A candidate knows how long the database has accepted writes, so it reclaims jobs as soon as it leads."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from common.postgres import leadership
from common.postgres.database import Database
from common.postgres.leadership import LeaseStore
from common.rabbitmq.publisher import Publisher
from services.dispatcher.maintenance.maintenance import ROLE, Maintenance, Parts
from services.dispatcher.settings import MaintenanceSettings
from tests.support.waiting import eventually

LEASE = 2.0  # of jobs, in seconds
UNUSED: Any = None


def read_settings(store: Path) -> MaintenanceSettings:
    return MaintenanceSettings(
        database_url="postgresql://unused",
        amqp_url="amqp://unused",
        store_url=store.as_uri(),
        url_keys=("unused",),
        port=1,
        lease=LEASE,
    )


async def test_the_grace_of_a_candidate_goes_on(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "LEASE_SECONDS", 60.0)  # so that the leader stays it, however slow this is
    leader = LeaseStore(database, ROLE)
    assert (await leader.acquire()).held
    publisher = Publisher("amqp://unused", "tests")
    maintenance = Maintenance(read_settings(tmp_path), Parts(database, UNUSED, publisher, *[UNUSED] * 5))
    candidate = asyncio.create_task(maintenance.run())

    async def is_over() -> bool:
        assert (await leader.acquire()).held
        return maintenance._grace.is_over

    await eventually(is_over, "the grace of the candidate is over")
    candidate.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await candidate
