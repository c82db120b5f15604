"""Why a queued job does not run yet."""

import math
from datetime import datetime, timedelta
from typing import assert_never
from uuid import UUID

from common import ids
from common.job_states import Status
from common.jobs.job import Job
from common.views.job import format_time
from common.views.job_parts import WaitingFor
from services.gateway.jobs.store import MAX_POSITION
from services.gateway.models.store import Residency, Workload
from services.gateway.models.workloads import WorkloadReader, Workloads

FOREVER = datetime.max.year  # how a time of `infinity` is read
JUST_LOADED = timedelta(seconds=10)  # its dispatchers begin to run it meanwhile


class WaitExplainer:
    """Says why jobs wait. It reads the state of all models, at most a second old, and nothing about a single job."""

    def __init__(self, workloads: WorkloadReader) -> None:
        self._workloads = workloads

    async def explain(self, row: Job, position: int | None = None) -> WaitingFor | None:
        """Return why a queued job waits, or None for another job. `position` is its place in the queue, if known."""
        return explain_wait(row, position, await self._workloads.read()) if row.status is Status.QUEUED else None


def explain_wait(row: Job, position: int | None, state: Workloads) -> WaitingFor:
    """Return the first reason that holds. Pure."""
    if row.is_run:
        return explain_time(row, state) or WaitingFor("dispatcher", "a dispatcher begins the run soon")
    return (
        explain_twin(row)
        or explain_time(row, state)
        or explain_pause(row.tenant_id, state.models.get(row.model), state)
        or explain_absence(state.models.get(row.model), state.residencies.get(row.model), state.at)
        or explain_hold(row, state)
        or explain_slots(row, position, state)
    )


def explain_twin(row: Job) -> WaitingFor | None:
    if row.scheduled_at is None or row.scheduled_at.year < FOREVER:
        return None
    if row.twin is None:
        return WaitingFor("same_job", "asks the same as other jobs; one of them starts soon")
    twin = ids.encode(ids.Kind.JOB, row.twin)
    return WaitingFor("same_job", f"asks the same as {twin}, and takes its result", twin)


def explain_time(row: Job, state: Workloads) -> WaitingFor | None:
    if row.scheduled_at is None:
        return None
    at = format_time(row.scheduled_at)
    if row.probation is not None:
        text = f"suspected of stopping Triton or its dispatcher; runs alone, one suspect at a time, not before {at}"
        return WaitingFor("probation", text)
    if row.scheduled_at <= state.at:
        return None  # a sweeper makes it claimable, if a dispatcher lives
    if row.error_code is not None:
        return WaitingFor("backoff", f"backing off until {at} after {row.error_code}")
    return WaitingFor("schedule", f"scheduled for {at}")


def explain_pause(tenant_id: UUID, workload: Workload | None, state: Workloads) -> WaitingFor | None:
    if tenant_id in state.paused_tenants:
        return WaitingFor("paused", "an operator paused your tenant")
    if workload is not None and workload.paused:
        return WaitingFor("paused", "an operator paused the model")
    return None


def explain_absence(workload: Workload | None, residency: Residency | None, now: datetime) -> WaitingFor | None:
    if workload is None or not workload.has_dispatcher:
        since = f" since {format_time(workload.seen_at)}" if workload and workload.seen_at else ""
        return WaitingFor("dispatcher", f"no dispatcher has this model{since}: none runs, or Triton lost it")
    if workload.slots == 0:
        if residency is not None and residency.is_led and (loading := explain_load(residency, now)):
            return WaitingFor("model_loading", loading)
        known = f"Triton does not have the model ready. {workload.reason}" if workload.reason else None
        return WaitingFor("triton", known or "Triton is away, or does not have the model ready")
    return None


def explain_load(residency: Residency, now: datetime) -> str | None:
    """Return what becomes of a model that nobody can run, as far as Triton is to load it. None: it has it loaded."""
    match residency.state:
        case "resident":
            just_now = residency.loaded_at is not None and now - residency.loaded_at < JUST_LOADED
            return "Triton has just loaded the model, and its jobs start soon" if just_now else None
        case "loading":
            return f"Triton is loading the model{show_estimate(residency, now)}"
        case "draining":
            state = "the model is being unloaded"
        case "absent":
            state = "the model is not loaded"
        case _:
            assert_never(residency.state)
    place = "" if residency.place is None else f"; it is number {residency.place} of those to be loaded"
    why = f". {residency.why.rstrip('.')}" if residency.why else ""
    reason = f". The reason: {residency.reason}" if residency.reason else ""
    return f"{state}{place}{show_estimate(residency, now)}{why}{reason}"


def show_estimate(residency: Residency, now: datetime) -> str:
    if residency.expected_at is None or residency.expected_at <= now:
        return ""
    seconds = math.ceil((residency.expected_at - now).total_seconds())
    span = f"{seconds} s" if seconds < 120 else f"{math.ceil(seconds / 60)} min"
    return f", and can probably run in {span}"


def explain_hold(row: Job, state: Workloads) -> WaitingFor | None:
    if row.model in state.held_models:
        text = "a job that may have stopped Triton runs alone on a dispatcher of this model, for five minutes at most"
        return WaitingFor("probation", text)
    return None


def explain_slots(row: Job, position: int | None, state: Workloads) -> WaitingFor:
    """Count the slots of the model, or those of the tenant if it has no other free. Say why free ones are not used."""
    limited_by = ""
    workload, running = state.models[row.model], state.running.get(row.model, 0)
    own, most = state.running_of_tenants.get((row.model, row.tenant_id), 0), workload.max_running_per_tenant
    if most is not None and own >= most:
        slots = f"{own} of {most} slots of your tenant busy"
    else:
        limit = workload.slots if workload.max_running is None else min(workload.slots, workload.max_running)
        slots = f"{running} of {max(limit, running)} slots busy"  # quick inferences get more than the slots
        if running < limit and workload.limited_by is not None:
            limited_by = f"; {workload.limited_by}"
    ahead = "" if position is None else f", {show_ahead(position - 1)} ahead"
    return WaitingFor("slot", f"{slots}{ahead}{limited_by}")


def show_ahead(jobs: int) -> str:
    return str(jobs) if jobs < MAX_POSITION else f"{MAX_POSITION} or more"
