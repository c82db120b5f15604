"""Submits single jobs with keys, in batches: those that lead, those that wait, and those that end at once."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from common import ids
from common.errors import Unavailable
from common.job_states import Priority, Status
from common.jobs.input_files import keep_large_inputs
from common.jobs.new_job import NewJob
from common.jobs.submit import choose_first
from common.jobs.submit_reusing import Added, Candidate, Reused, add_reused, submit_reusing
from common.jobs.twins import MAX_KEYS, FoundTwin, Promotion, find_loads, find_twins, lift_twins, promote_twins
from common.postgres.batcher import Batcher
from common.postgres.database import Database
from common.rabbitmq.wake_ups import WakeUpPublisher, event_wake_up
from common.reuse.decisions import Decision, Loads, Wish, decide
from common.reuse.key import ReuseKey
from common.telemetry.logs import Log
from common.telemetry.metrics import count_reused
from common.views.job import MAX_OUTPUTS, JobUrls, job_log_fields
from services.gateway.jobs.reuse.hits import Hit, make_hit
from services.gateway.jobs.reuse.remembered import RememberedResults
from services.gateway.models.catalogue import Catalogue, find_version, newest

log = Log("job")
RANKS = {priority: rank for rank, priority in enumerate(Priority)}


class Plan(NamedTuple):
    """What becomes of a job, given its twin, if there is one. A twin that is `remembered` may be gone."""

    decision: Decision
    twin: FoundTwin | None
    is_remembered: bool = False

    @property
    def before(self) -> UUID | None:
        """The twin that a job replaces, which can answer nothing any more."""
        return None if self.twin is None or self.decision is Decision.JOIN else self.twin.job_id

    @property
    def claim(self) -> int:
        """The claim from which those of a new twin go on."""
        return 0 if self.twin is None or self.decision is Decision.JOIN else self.twin.claim


class Sharing:
    """Finds what jobs can share."""

    def __init__(self, database: Database, catalogue: Catalogue, wake_ups: WakeUpPublisher, urls: JobUrls) -> None:
        self._database = database
        self._catalogue = catalogue
        self._wake_ups = wake_ups
        self._urls = urls
        self._remembered = RememberedResults()
        self._twins: Batcher[ReuseKey, FoundTwin | None] = Batcher(self._find_many, name="twins", limit=MAX_KEYS)
        self._leads: Batcher[Candidate, Added | None] = Batcher(
            self._add_many, name="submits with keys", size_of=lambda each: len(each.job.tensors)
        )
        self._hits: Batcher[Reused, bool] = Batcher(self._take_many, name="hits", size_of=measure)

    async def plan(self, job: NewJob) -> Plan:
        """Return what becomes of a job. Raises Unavailable."""
        remembered = self._remembered.find(key_of(job))
        if remembered is not None:
            loads = await self._read_loads(job)
            if decide(to_wish(job, remembered), remembered.state, loads) is Decision.HIT:
                return Plan(Decision.HIT, remembered, is_remembered=True)
        return await self._look(job)

    async def _look(self, job: NewJob) -> Plan:
        """Return what becomes of a job, given its twin as it is now."""
        twin = await self._twins.submit(key_of(job))
        if twin is None:
            return Plan(Decision.LEAD, None)
        loads, wish = await self._read_loads(job), to_wish(job, twin)
        decision = decide(wish, twin.state, loads)
        if decision is Decision.LEAD and is_of_other_load(twin, loads):  # the catalogue may be a second old
            decision = decide(wish, twin.state, await find_loads(self._database, job.model, job.version) or ())
        if decision is Decision.HIT:
            self._remembered.note(key_of(job), twin)
        return Plan(decision, twin)

    async def _read_loads(self, job: NewJob) -> Loads:
        """Return the loads that answer a job, as of the catalogue."""
        versions = (await self._catalogue.read()).get(job.model, ())
        chosen = find_version(versions, job.version) if job.version else newest(versions) if versions else None
        return {(chosen.version, load) for load in chosen.loads or ()} if chosen else set()

    async def _find_many(self, keys: list[ReuseKey]) -> list[FoundTwin | None]:
        found = await find_twins(self._database, list(dict.fromkeys(keys)), MAX_OUTPUTS)
        return [found.get(key) for key in keys]

    async def take(self, job: NewJob, plan: Plan) -> tuple[Hit | None, Plan]:
        """End a job with the result of its twin, if the plan says so. Return what to do if that is gone meanwhile.

        It is the same plan if the idempotency key is in use. Raises LargeInputsLost and Unavailable.
        """
        hit = None
        if plan.decision is Decision.HIT and plan.twin is not None:
            hit = await self._take(job, plan.twin)
            if hit is None and plan.is_remembered:
                self._remembered.forget(key_of(job))
                return await self.take(job, await self._look(job))
        return hit, plan

    async def _take(self, job: NewJob, twin: FoundTwin) -> Hit | None:
        """End a job with the result of its twin. None: that is gone, or the idempotency key is in use."""
        hit = make_hit(job, twin, self._urls)
        if job.large_inputs:
            async with self._database.transaction() as connection:
                ended = await add_reused(connection, [hit.reused])
                await keep_large_inputs(connection, [job], ended)
            self._announce_ends([hit.reused], ended)
            taken = bool(ended)
        else:
            taken = await self._hits.submit(hit.reused)
        if not taken:
            return None
        count_reused(hit.row.model, "hit", twin.inference_ms)
        log.info("job.reused", **job_log_fields(hit.row), twin=ids.encode(ids.Kind.JOB, twin.job_id))
        return hit

    async def _take_many(self, jobs: list[Reused]) -> list[bool]:
        first = {job.id for job in choose_first(each.job for each in jobs)}
        ended = await add_reused(self._database, [each for each in jobs if each.job.id in first])
        self._announce_ends(jobs, ended)
        return [each.job.id in ended for each in jobs]

    def _announce_ends(self, jobs: Sequence[Reused], ended: Collection[UUID]) -> None:
        """Announce the events of jobs that ended, after the answers to their clients."""
        done = [each.event for each in jobs if each.job.id in ended]
        wake_ups = [event_wake_up(event.id, event.type, event.traceparent) for event in done]
        asyncio.get_running_loop().call_soon(self._wake_ups.announce, wake_ups)

    async def add(self, job: NewJob, plan: Plan) -> Added | None:
        """Add a job without files. None: its idempotency key is in use. Raises Unavailable."""
        added = await self._leads.submit(Candidate(job, plan.before, plan.claim))
        if added is not None and not added.leads and needs_lift(job, plan):
            await self._lift(job)
        return added

    async def _add_many(self, candidates: list[Candidate]) -> list[Added | None]:
        first = {job.id for job in choose_first(each.job for each in candidates)}
        added = await submit_reusing(self._database, [each for each in candidates if each.job.id in first])
        self._wake_ups.announce(
            [each.job.wake_up for each in candidates if (one := added.get(each.job.id)) and one.leads]
        )
        return [added.get(each.job.id) for each in candidates]

    async def settle(self, job: NewJob, plan: Plan) -> None:
        """Let a job that was added as one that waits lead, if it can. Else a sweep does that later."""
        with suppress(Unavailable):
            if plan.decision is not Decision.JOIN:
                promotion = Promotion(job.id, plan.before, job.priority, plan.claim)
                self._wake_ups.announce(await promote_twins(self._database, [promotion]))
            elif needs_lift(job, plan):
                await self._lift(job)

    async def _lift(self, job: NewJob) -> None:
        """Lift the twin of a job that was added. Without that, it only starts later."""
        with suppress(Unavailable):
            self._wake_ups.announce(await lift_twins(self._database, [key_of(job)]))


def is_of_other_load(twin: FoundTwin, loads: Loads) -> bool:
    """Return whether a twin has succeeded with a load that is not among these."""
    state = twin.state
    if state is None or state.status is not Status.SUCCEEDED or state.version is None or state.load_id is None:
        return False
    return (state.version, state.load_id) not in loads


def needs_lift(job: NewJob, plan: Plan) -> bool:
    """Return whether a job that waits may need its result earlier than its twin would start."""
    twin = plan.twin
    if twin is None or twin.state is None or twin.state.status is not Status.QUEUED:
        return False
    if RANKS[job.priority] < RANKS.get(twin.priority or Priority.HIGH, 0):
        return True
    if job.expires_in is None or twin.next_attempt_at is None:
        return False
    return twin.at + timedelta(seconds=job.expires_in) < twin.next_attempt_at


def to_wish(job: NewJob, twin: FoundTwin) -> Wish:
    """Return what a job accepts at the time of a look at its twin."""
    return Wish(job.model, job.fallback_model, job.reuse_seconds or 0.0, twin.at)


def key_of(job: NewJob) -> ReuseKey:
    assert job.reuse_key is not None, "the job has a key"
    return ReuseKey(job.tenant_id, job.reuse_key)


def measure(job: Reused) -> int:
    return len(job.job.tensors) + len(job.event.body)
