"""Settles groups of jobs that wait for a twin, page by page, and many small groups with one page."""

import asyncio
from collections.abc import Iterable, Sequence
from uuid import UUID

from common import ids
from common.errors import DatabaseUnavailable, StatementTimeout
from common.jobs.take_results import Joiner, Page, list_joiners, release_joiners, take_results
from common.jobs.twins import MAX_KEYS, find_loads, find_twins, lift_twins, promote_twins
from common.postgres.database import Database
from common.rabbitmq.change_publisher import ChangePublisher
from common.rabbitmq.wake_ups import WakeUpPublisher, event_wake_up
from common.reuse.decisions import Loads
from common.reuse.key import ReuseKey
from common.telemetry.logs import Log
from common.telemetry.metrics import count_reused
from common.telemetry.outage import Outage
from common.views.job import MAX_OUTPUTS, JobUrls, job_log_fields
from services.dispatcher.results.run_progress import RunProgress
from services.dispatcher.results.unsettled_keys import UnsettledKeys
from services.dispatcher.reuse.plan import Group, Served, plan
from services.dispatcher.reuse.takers import Taker, end_taker, measure_page

LOOPS = 2

log = Log("job")


class Settler:
    """Lets jobs take the result of their twin, or makes the oldest of them the twin.

    Several processes may settle one group at once: whoever is slower finds the jobs locked, or ended.
    """

    def __init__(
        self,
        database: Database,
        runs: RunProgress,
        unsettled: UnsettledKeys,
        wake_ups: WakeUpPublisher,
        changes: ChangePublisher,
        urls: JobUrls,
    ) -> None:
        self._database = database
        self._runs = runs
        self._unsettled = unsettled
        self._wake_ups = wake_ups
        self._changes = changes
        self._urls = urls

    async def run(self) -> None:
        """Settle the groups that are noted here, until cancelled. A sweep finds those that this cannot settle."""
        async with asyncio.TaskGroup() as group:
            for _ in range(LOOPS):
                group.create_task(self._repeat())

    async def _repeat(self) -> None:
        outage = Outage()
        while True:
            keys = await self._unsettled.take(MAX_KEYS)
            with outage.tolerate("reuse.database_unavailable", log):
                await self.settle(keys)

    async def settle(self, keys: Sequence[ReuseKey]) -> None:
        """Settle the oldest jobs of at most MAX_KEYS groups, and note those that have more. Raises DatabaseUnavailable.

        Whatever is wrong with one of them must not hold up the others.
        """
        try:
            self._unsettled.note(await self._settle_pages(keys))
        except Exception as error:
            if isinstance(error, DatabaseUnavailable) and not isinstance(error, StatementTimeout):
                raise
            if len(keys) == 1:
                log.warning("reuse.not_settled", tenant=ids.encode(ids.Kind.TENANT, keys[0].tenant_id), error=error)
                return
            for key in keys:
                await self.settle([key])

    async def _settle_pages(self, keys: Sequence[ReuseKey]) -> list[ReuseKey]:
        """Settle the oldest jobs of groups. Return the groups whose later jobs may be settled, too."""
        twins = await find_twins(self._database, keys, MAX_OUTPUTS)
        pages = [Page(key, measure_page(twins.get(key), len(keys))) for key in keys]
        found = await list_joiners(self._database, pages)
        if not found:
            return []
        now = found[0][1]
        joiners: dict[ReuseKey | None, list[Joiner]] = {}
        for job, _ in found:
            joiners.setdefault(job.reuse, []).append(job)
        groups = {key: Group(joiners[key], twins.get(key)) for key in keys if key in joiners}
        todo = plan(groups.values(), await self._find_loads(groups.values()), now)
        moved = {taker.job.reuse for taker in await self._take(todo.takers)}
        if todo.released:
            self._wake_ups.announce(await release_joiners(self._database, [job.id for job in todo.released]))
            moved |= {job.reuse for job in todo.released}
        if todo.promotions:
            self._wake_ups.announce(await promote_twins(self._database, todo.promotions))
        chosen = {promotion.id for promotion in todo.promotions}
        lifted = [key for key, group in groups.items() if group.twin_is_queued or group.joiners[0].id in chosen]
        if lifted:  # also for a job beyond the page
            self._wake_ups.announce(await lift_twins(self._database, lifted))
        return [key for key in groups if key in moved]

    async def _find_loads(self, groups: Iterable[Group]) -> dict[Served, Loads | None]:
        """Return the loads of all that groups name."""
        wanted = {each for group in groups if not group.waits for each in (group.own, group.answering)}
        return {each: await find_loads(self._database, each.model, each.version) for each in wanted}

    async def _take(self, takers: Sequence[Taker]) -> list[Taker]:
        """Let jobs take results. Return those that did."""
        if not takers:
            return []
        taken = await self._take_together([taker for taker in takers if taker.job.parent is None])
        steps: dict[UUID, list[Taker]] = {}
        for taker in takers:
            if taker.job.parent is not None:
                steps.setdefault(taker.job.parent, []).append(taker)
        for run, mine in steps.items():
            taken |= await self._take_of_run(run, mine)
        done = [taker for taker in takers if taker.job.id in taken]
        self._note(done)
        return done

    async def _take_together(self, takers: Sequence[Taker]) -> set[UUID]:
        if not takers:
            return set()
        ends = [end_taker(taker, self._urls) for taker in takers]
        taken = await take_results(self._database, ends)
        self._wake_ups.announce(
            event_wake_up(end.event.id, end.event.type, end.event.traceparent) for end in ends if end.id in taken
        )
        return taken

    async def _take_of_run(self, run: UUID, takers: Sequence[Taker]) -> set[UUID]:
        """Let jobs of steps take results, and carry their run on."""
        ends = [end_taker(taker, self._urls) for taker in takers]
        taken, wake_ups = await self._runs.take_results(run, [taker.job for taker in takers], ends)
        self._wake_ups.announce(wake_ups)
        return taken

    def _note(self, takers: Sequence[Taker]) -> None:
        self._changes.notify(taker.job.id for taker in takers)
        for job, twin in takers:
            count_reused(job.model, "join", twin.inference_ms)
            log.info("job.reused", **job_log_fields(job), twin=ids.encode(ids.Kind.JOB, twin.job_id))
