"""A gateway shows jobs that a later release wrote, and changes none whose state it does not know."""

from uuid import UUID

import pytest

from common.job_states import Priority
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from services.gateway.events.store import EventStore
from services.gateway.http.problems import Problem
from services.gateway.jobs.actions.store import RetryStore
from services.gateway.jobs.store import JobFilter, JobStore
from services.gateway.reports.stats.reader import StatsReader
from services.gateway.reports.stats.routes import view_stats
from services.gateway.reports.stats.store import StatsStore
from services.gateway.reports.traces.store import TraceStore
from tests.integration.job_actions import new_canceler
from tests.integration.jobs import submit
from tests.support.database.later_release import ALLOW_MORE, SET_PRIORITY, SET_STATUS
from tests.support.recorded_wake_ups import RecordedWakeUps
from tests.unit.fake_publisher import FakePublisher


@pytest.fixture(autouse=True)
async def migrated(database: Database) -> None:
    await database.fetch(ALLOW_MORE)


@pytest.fixture
async def paused(database: Database, tenant: UUID, migrated: None) -> UUID:
    await database.fetch(SET_STATUS, job := await submit(database, tenant))
    return job


@pytest.fixture
async def urgent(database: Database, tenant: UUID, migrated: None) -> UUID:
    await database.fetch(SET_PRIORITY, job := await submit(database, tenant))
    return job


async def test_a_new_state_is_shown(database: Database, tenant: UUID, paused: UUID) -> None:
    found = await JobStore(database).find_job(paused, tenant)
    traced = await TraceStore(database).find_job(paused, tenant)
    snapshots = await EventStore(database).find_snapshots([paused])
    states = await RetryStore(database).find_states(tenant, [paused])
    assert found is not None
    assert traced is not None
    assert {found.row.status, traced.row.status, snapshots[paused].status, states[paused].status} == {"paused"}
    assert await JobStore(database).find_status(paused) == "paused"


async def test_a_new_priority_is_shown(database: Database, tenant: UUID, urgent: UUID) -> None:
    usual = await submit(database, tenant)
    found = await JobStore(database).find_job(urgent, tenant)
    listed = await JobStore(database).list_jobs(tenant, JobFilter(), None, 9)
    stats = view_stats(await StatsReader(StatsStore(database)).read(tenant))
    assert found is not None
    assert (found.row.priority, found.queue_position) == ("urgent", None)
    assert [(job.id, job.priority) for job in listed] == [(usual, "normal"), (urgent, "urgent")]
    assert [each.priority for each in stats.items] == [Priority.NORMAL, "urgent"]


async def test_a_job_in_a_new_state_is_not_canceled(
    database: Database, tenant: UUID, paused: UUID, urgent: UUID
) -> None:
    canceler = new_canceler(database, RecordedWakeUps(), ChangePublisher(FakePublisher()))
    with pytest.raises(Problem, match="the job is paused") as caught:
        await canceler.cancel(tenant, paused)
    assert caught.value.code == "conflict"
    assert (await canceler.cancel(tenant, urgent)).status == "canceled"
