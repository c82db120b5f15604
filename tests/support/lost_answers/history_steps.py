"""Every step that keeps and removes history."""

from collections.abc import Sequence
from uuid import UUID

from common.jobs.keep import keep_jobs
from common.reuse.key import FIRST
from services.dispatcher.maintenance.history.store import NIL, HistoryStore
from tests.support.lost_answers.world import World, repeat
from tests.support.waiting import eventually

# A job and a delivery that never are due, and a file of a job that is gone.
LIVE_JOB = """
INSERT INTO live_jobs (id, tenant_id, model, priority, status, max_attempts, timeout, initial_delay, max_delay,
                       traceparent, tensors, run_at, scheduled_at)
VALUES (gen_random_uuid(), $1, 'echo', 'normal', 'queued', 1, 1, 0, 0, '', '', 'infinity', 'infinity')
RETURNING id
"""
LIVE_RUN = """
INSERT INTO live_runs (id, generation, tenant_id, model, priority, status, max_attempts, timeout, initial_delay,
                       max_delay, traceparent, tensors, scheduled_at, run_state)
VALUES (gen_random_uuid(), -1, $1, 'chain', 'normal', 'queued', 1, 1, 0, 0, '', '', 'infinity', '{}')
RETURNING id
"""
LIVE_DELIVERY = """
INSERT INTO live_deliveries (id, event_id, event_generation, event_type, tenant_id, endpoint_id, url, traceparent,
                             next_at)
VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'never', $1, gen_random_uuid(), '', '', 'infinity')
"""
FILE_OF_GONE_JOB = """
INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, job_id, expires_at)
VALUES (gen_random_uuid(), $1, 'ready', 'text/plain', 1, '', 60, gen_random_uuid(), 'infinity')
"""

TWIN_OF_GONE_JOB = """
INSERT INTO twins (tenant_id, key, job_id) VALUES ($1, sha256('gone'), gen_random_uuid()) ON CONFLICT DO NOTHING
"""


async def repeat_history(world: World, jobs: Sequence[UUID]) -> None:
    """Every step for these ended jobs, but only a generation is old that has nothing: the check wants the rest."""
    own, tenant = world.own, world.removed_id
    live = [await own.fetchval(LIVE_JOB, tenant), await own.fetchval(LIVE_RUN, tenant)]
    await own.execute(LIVE_DELIVERY, tenant)
    await own.execute(FILE_OF_GONE_JOB, tenant)
    await own.execute(TWIN_OF_GONE_JOB, tenant)
    await own.execute("UPDATE generations SET began_at = now(), ended_at = now() WHERE number = 8")
    async with world.database() as database:
        store = HistoryStore(database)
        await eventually(lambda: repeat(lambda: store.begin_next(0.0)), "nobody reads the generation that begins")
        await repeat(lambda: keep_jobs(database, 1, jobs))
        await repeat(lambda: store.keep_for_deliveries(8, (NIL,), 100))
        await repeat(lambda: store.keep_for_jobs(8, (NIL,), 100))
        await repeat(lambda: store.keep_for_runs(8, (NIL,), 100))
        await repeat(lambda: store.find_old(0.0))
        await repeat(lambda: store.empty(8, 0.0))
        await repeat(lambda: store.release_files((NIL, NIL), 100))
        await repeat(lambda: store.remove_twins(FIRST, 100))
    await own.execute("DELETE FROM jobs WHERE id = ANY($1)", live)
    await own.execute("DELETE FROM deliveries WHERE event_type = 'never'")
