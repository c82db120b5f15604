"""A tenant's jobs do not wait behind all that another one has queued."""

from tests.acceptance.client import Api, Job, Jobs, read
from tests.acceptance.samples import work
from tests.acceptance.shapes import BatchAccepted
from tests.acceptance.waiting import eventually

FLOOD = 800  # jobs, eight at a time: five seconds at least
MS = 50  # of each job
PROBES = 8  # one after the other, each of which takes at most three batches
SLOTS = 16  # as many of the flood run at a time, and may be claimed while a job is just being written down
OVERTAKEN = 3 * SLOTS  # in order of submission it would be hundreds


async def list_batch(api: Api, batch: str) -> list[Job]:
    """All of its jobs."""
    found: list[Job] = []
    cursor: dict[str, str] | None = {}
    while cursor is not None:
        query = {"batch": batch, "limit": "100"} | cursor
        page = read(await api.http.get("/v1/jobs", params=query), 200, Jobs)
        found += page.items
        cursor = None if page.next_cursor is None else {"cursor": page.next_cursor}
    return found


async def test_a_job_starts_before_anothers_flood(api: Api, stranger: Api) -> None:
    item = {"model": "work", "inputs": work(MS)}
    flood = read(await stranger.http.post("/v1/batches", json=[item] * FLOOD, timeout=30), 202, BatchAccepted)
    probes = [await api.run("work", work(MS)) for _ in range(PROBES)]
    waiting = read(await stranger.http.get("/v1/jobs", params={"batch": flood.id, "status": "queued"}), 200, Jobs)
    assert waiting.items, "there was no flood any more"

    async def over() -> bool:
        return all(job.finished_at is not None for job in await list_batch(stranger, flood.id))

    await eventually(over, "the flood is over", 90.0)
    starts = [job.started_at for job in await list_batch(stranger, flood.id) if job.started_at is not None]
    for probe in probes:
        assert probe.status == "succeeded"
        assert probe.started_at is not None
        before = sum(1 for start in starts if probe.created_at <= start < probe.started_at)
        assert before <= OVERTAKEN, (before, probe)
