"""How long a claim takes while a long snapshot is open, such as that of pg_dump, and jobs are done under it.

No service runs. The claims are those of a dispatcher whose slots are all in use, so it searches too. All times are in
ms.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from uuid import UUID

import asyncpg

from benchmarks.harness.bench import QUERIES, Bench, BenchmarkFailed, Scenario
from benchmarks.harness.report import Figures, percentiles
from common import ids
from common.job_states import Priority
from common.postgres.database import Database
from services.dispatcher.claims.claims import Claims
from services.dispatcher.claims.limits import RunLimits
from services.dispatcher.claims.store import LimitStore
from services.dispatcher.models.served_model import ServedModel
from services.gateway.auth.store import KeyStore

MODEL = "snapshot"
TENANTS = 3
WAITING = 6000  # jobs that can be claimed, before each part
CHUNK = 10_000  # jobs of one statement
DONE = (30_000, 100_000, 300_000)  # jobs under the snapshot
SIZES = (1, 50)  # jobs of one claim
CLAIMS = 100  # of each size


class Queue:
    """The jobs of MODEL."""

    def __init__(
        self, database: Database, owner: "asyncpg.Connection[asyncpg.Record]", tenants: Sequence[UUID]
    ) -> None:
        self._database = database
        self._owner = owner
        self._tenants = tenants
        self._model = ServedModel(MODEL, asyncio.Event())
        self._claims = Claims(database, RunLimits(LimitStore(database), list), worker="benchmark", lease=60.0)
        self._last = 0  # the number of the last job

    async def pass_through(self, jobs: int) -> None:
        """Add so many jobs, and end all but the last WAITING."""
        for _ in range(0, jobs, CHUNK):
            first, self._last = self._last + 1, self._last + min(CHUNK, jobs)
            await self._owner.execute(QUERIES["fill_claimable"], first, self._last, self._tenants, MODEL)
            await self._owner.execute(QUERIES["end_oldest"], MODEL, WAITING)

    async def time_claims(self, name: str) -> Figures:
        """Return how long claims take. WAITING jobs wait before those of each size."""
        figures: Figures = {}
        for size in SIZES:
            times = []
            for _ in range(CLAIMS):
                began = time.perf_counter()
                claimed = await asyncio.gather(*(self._claims.claim(self._model, Priority.NORMAL) for _ in range(size)))
                times.append((time.perf_counter() - began) * 1000)
                if None in claimed:
                    raise BenchmarkFailed(f"a claim got no job for {claimed.count(None)} of {size} messages")
            figures |= percentiles(f"{name}.claim_{size}", times)
            figures[f"{name}.claim_{size}.mean"] = sum(times) / CLAIMS
            await self.pass_through(size * CLAIMS)
        return figures


async def time_claims(url: str) -> Figures:
    """Return how long claims take without a snapshot, under one, after it, and after a VACUUM."""
    database, owner, reader = (
        await Database.connect(url, application="benchmark"),
        await asyncpg.connect(url),
        await asyncpg.connect(url),
    )
    tenants = [ids.new() for _ in range(TENANTS)]
    for tenant in tenants:
        await KeyStore(database).add_tenant(tenant, str(tenant), b"", actor="benchmark")
    queue = Queue(database, owner, tenants)
    await queue.pass_through(WAITING)
    await owner.execute("VACUUM (ANALYZE)")
    figures, done = await queue.time_claims("usual"), 0
    async with reader.transaction(isolation="repeatable_read", readonly=True):
        await reader.execute("SELECT FROM jobs LIMIT 1")
        for count in DONE:
            await queue.pass_through(count - done)
            figures |= await queue.time_claims(f"after_{count}")
            done = count
    await owner.execute("VACUUM jobs")
    figures |= await queue.time_claims("vacuumed")
    for size in SIZES:
        for figure in ("p50", "mean"):
            name = f"claim_{size}.{figure}"
            figures[f"ratio_{size}.{figure}"] = figures[f"after_{DONE[-1]}.{name}"] / figures[f"usual.{name}"]
    for connection in (owner, reader):
        await connection.close()
    await database.close()
    return figures


def measure(bench: Bench) -> Iterator[Figures]:
    yield asyncio.run(time_claims(bench.stack.postgres.url))


SETUP = {"tenants": TENANTS, "waiting": WAITING, "claims": CLAIMS}
SCENARIO = Scenario(measure, SETUP, counts={"gateways": 0, "dispatchers": 0, "notifiers": 0}, once=True)
