"""Carries a locked run on: takes the ends of its steps' jobs, makes the jobs that follow, or ends the run.

All of it is in the transaction that ended those jobs. So each job of a step is made once, and none is forgotten.
If it needs the object store, and that is away, the rest is left to the sweep of runs.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from common import ids
from common.errors import StoreUnavailable
from common.event_types import number_event
from common.job_states import Failure, Status
from common.jobs.new_event import NewEvent
from common.jobs.new_job import NewJob
from common.jobs.run import (
    Run,
    RunEnd,
    StepEvent,
    add_step_events,
    add_steps,
    cancel_steps,
    end_run,
    record_start,
    save_states,
    schedule_run,
)
from common.pipelines import advance
from common.pipelines.run_state import RunState, stop, sum_inference
from common.postgres.database import Connection
from common.rabbitmq.wake_ups import WakeUp, cancel_wake_up, event_wake_up
from common.reuse.key import ReuseKey
from common.runs.outputs import render_outputs
from common.runs.pipelines import Pipeline
from common.runs.step_inputs import StepInputs, starting
from common.runs.step_jobs import NO_HASHES, make_job
from common.runs.tensor_files import CannotGoOn, TensorFiles
from common.telemetry.logs import Log
from common.views.job import JobUrls, job_log_fields, render_event

AGAIN_SECONDS = 5.0  # before a sweep tries again to carry on a run

log = Log("runs")


class StepEnd(NamedTuple):
    """The end of a job of a step."""

    job: UUID
    step: str
    status: Status
    failure: Failure | None
    inference_ms: float  # 0 if it did not succeed


class StepEventData(msgspec.Struct, frozen=True):
    """The data of an event of a step, in the stream of its run."""

    step: str
    job: str | None = None
    total: int | None = None


class Carried(NamedTuple):
    """What to announce after the commit, and how the run ended, if it did."""

    wake_ups: Sequence[WakeUp]
    status: Status | None = None
    keys: Sequence[ReuseKey] = ()  # of jobs that were made, and wait for twins


class RunCarrier:
    """Carries runs on."""

    def __init__(self, urls: JobUrls, files: TensorFiles | None) -> None:
        """`files` are None in a gateway. It leaves runs that need the object store to the sweep."""
        self._urls = urls
        self._files = files

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """Begin a transaction in which runs may write files."""
        assert self._files is not None, "a gateway writes no files of runs"
        return self._files.transaction()

    async def begin(self, connection: Connection, run: Run, now: datetime, pipeline: Pipeline) -> Carried:
        """Carry on a locked run that begins now.

        Raises StoreUnavailable while the object store is away, if the run needs it.
        """
        start = await self._record_start(connection, run, now)
        carried = await self.carry_on(connection, run, now, pipeline)
        return carried._replace(wake_ups=[*start, *carried.wake_ups])

    async def leave(self, connection: Connection, run: Run, now: datetime) -> Carried:
        """Leave a locked run that begins now to the next sweep."""
        await schedule_run(connection, run.id, 0)
        return Carried(await self._record_start(connection, run, now))

    async def _record_start(self, connection: Connection, run: Run, now: datetime) -> list[WakeUp]:
        """Record that a run begins, or goes on after a retry, if a webhook wants it. Return what to announce."""
        kind, event_id = "job.started", ids.new()
        sequence = number_event(kind, run.claim)
        body = render_event(run, self._urls, kind, now, None, sequence=sequence)
        if await record_start(connection, run.id, NewEvent(event_id, kind, sequence, body, run.traceparent)):
            return [event_wake_up(event_id, kind, run.traceparent)]
        return []

    async def carry_on(
        self, connection: Connection, run: Run, now: datetime, pipeline: Pipeline, ends: Sequence[StepEnd] = ()
    ) -> Carried:
        """Carry a locked run on after the ends of some of its jobs. Without `ends`, it is a sweep that does.

        Raises StoreUnavailable without `ends` only, while the object store is away, if the run needs it.
        """
        failed = next((end for end in ends if end.status is not Status.SUCCEEDED), None)
        state = run.state
        events = [to_event(run, f"step.{end.status}", end.step, end.job) for end in ends]
        for end in ends:
            if end.status is Status.SUCCEEDED:
                state = advance.note_success(state, end.step, end.inference_ms)
        if failed is not None:
            return await self._fail(connection, run, now, stop(state, failed.step), describe(failed), events)
        if ends and run.scheduled_at is not None:  # it is left to the sweep
            return await self._save(connection, run, state, events)
        noted, ended = state, events
        inputs = StepInputs(connection, run, pipeline, self._files)
        try:
            state, begun = await begin_ready(state, pipeline, inputs)
            events = [*ended, *(to_event(run, "step.started", step, total=state[step].total) for step in begun)]
            state, jobs = await make_jobs(run, state, pipeline, inputs)
            if not advance.has_succeeded(state):
                if not await add_steps(connection, jobs):
                    raise CannotGoOn("a file that a step reads is gone")
                return await self._save(connection, run, state, events, jobs)
            outputs = await render_outputs(connection, pipeline, inputs)
        except CannotGoOn as error:
            failure = Failure("step_failed", str(error), retryable=False)
            return await self._fail(connection, run, now, stop(state, error.step), failure, events)
        except StoreUnavailable as error:
            if not ends:
                raise
            log.warning("run.left_to_sweep", **job_log_fields(run), error=error)
            await schedule_run(connection, run.id, AGAIN_SECONDS)
            return await self._save(connection, run, noted, ended)
        await add_step_events(connection, events)
        return await self._end(connection, run, now, Status.SUCCEEDED, state, outputs=outputs)

    async def _save(
        self,
        connection: Connection,
        run: Run,
        state: RunState,
        events: Sequence[StepEvent],
        jobs: Sequence[NewJob] = (),
    ) -> Carried:
        await save_states(connection, {run.id: state})
        await add_step_events(connection, events)
        keys = [ReuseKey(job.tenant_id, job.reuse_key) for job in jobs if job.reuse_key is not None]
        return Carried([job.wake_up for job in jobs if job.reuse_key is None], keys=keys)

    async def end_overdue(self, connection: Connection, run: Run, now: datetime) -> Carried:
        """Fail a locked run whose deadline has passed."""
        text = f"the run took longer than its timeout of {run.timeout:g} s"
        return await self._fail(connection, run, now, stop(run.state), Failure("timeout", text, retryable=True), [])

    async def cancel(self, connection: Connection, run: Run, now: datetime) -> Carried:
        """Cancel a locked run. Its steps' jobs that run are canceled by their dispatchers, later."""
        canceling = await cancel_steps(connection, run.id)
        ended = await self._end(connection, run, now, Status.CANCELED, stop(run.state))
        cancels = [cancel_wake_up(job.id, job.traceparent) for job in canceling]
        return Carried([*ended.wake_ups, *cancels], ended.status)

    async def _fail(
        self,
        connection: Connection,
        run: Run,
        now: datetime,
        state: RunState,
        failure: Failure,
        events: Sequence[StepEvent],
    ) -> Carried:
        await add_step_events(connection, events)
        canceling = await cancel_steps(connection, run.id)
        ended = await self._end(connection, run, now, Status.FAILED, state, failure=failure)
        cancels = [cancel_wake_up(job.id, job.traceparent) for job in canceling]
        return Carried([*ended.wake_ups, *cancels], ended.status)

    async def _end(
        self,
        connection: Connection,
        run: Run,
        now: datetime,
        status: Status,
        state: RunState,
        *,
        failure: Failure | None = None,
        outputs: bytes | None = None,
    ) -> Carried:
        kind, event_id = f"job.{status}", ids.new()
        ended = msgspec.structs.replace(
            run,
            status=status,
            finished_at=now,
            inference_ms=sum_inference(state),
            error_code=None if failure is None else failure.code,
            error_message=None if failure is None else failure.message,
            error_retryable=None if failure is None else failure.retryable,
        )
        sequence = number_event(kind, run.claim)
        body = render_event(ended, self._urls, kind, now, outputs, sequence=sequence)
        event = NewEvent(event_id, kind, sequence, body, run.traceparent)
        await end_run(
            connection,
            RunEnd(
                run=run.id,
                status=status,
                state=state,
                event=event,
                failure=failure,
                outputs=outputs,
                inference_ms=ended.inference_ms,
            ),
        )
        return Carried([event_wake_up(event_id, kind, run.traceparent)], status)


async def begin_ready(state: RunState, pipeline: Pipeline, inputs: StepInputs) -> tuple[RunState, list[str]]:
    """Return the state after all steps have begun that may, and those steps. A step without elements lets others begin.

    Raises CannotGoOn.
    """
    begun: list[str] = []
    while ready := advance.list_ready(state, pipeline.needs):
        for name in ready:
            step = pipeline.definition.steps[name]
            with starting(name):
                state = advance.start(state, name, await inputs.count(step))
            begun.append(name)
    return state, begun


async def make_jobs(run: Run, state: RunState, pipeline: Pipeline, inputs: StepInputs) -> tuple[RunState, list[NewJob]]:
    """Return the state after jobs were made for the elements that get one now, and the jobs.

    Raises CannotGoOn.
    """
    jobs: list[NewJob] = []
    for name, found in state.items():
        if wanted := advance.list_wanted(found):
            step = pipeline.definition.steps[name]
            with starting(name):
                elements, place = await inputs.list_elements(step, found.place, wanted)
            made = wanted[: len(elements)]
            hashes = await inputs.find_hashes(elements) if step.reuse is not None else NO_HASHES
            jobs += [make_job(run, name, step, index, each, hashes) for index, each in zip(made, elements, strict=True)]
            state = advance.note_made(state, name, made.stop, place)
    return state, jobs


def describe(end: StepEnd) -> Failure:
    """Return why a run failed whose step did."""
    if end.failure is None:
        return Failure("step_failed", f"step '{end.step}' was canceled", retryable=True)
    text = f"step '{end.step}' failed: {end.failure.message}"
    return Failure("step_failed", text, end.failure.retryable)


def to_event(run: Run, kind: str, step: str, job: UUID | None = None, *, total: int | None = None) -> StepEvent:
    shown = None if job is None else ids.encode(ids.Kind.JOB, job)
    return StepEvent(run.id, run.claim, kind, msgspec.json.encode(StepEventData(step, shown, total)))
