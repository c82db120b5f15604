"""Refuses calls on the job of a step alone: its run would not know of them."""

from typing import Protocol
from uuid import UUID

from common import ids
from services.gateway.http.problems import Problem, conflict


class StepJob(Protocol):
    """The job of a step."""

    @property
    def parent(self) -> UUID | None: ...

    @property
    def step(self) -> str | None: ...


def explain_step(job: StepJob, verb: str) -> str:
    """Return that a job belongs to a run, which a call must name instead."""
    assert job.parent is not None, "it is the job of a step"
    run = ids.encode(ids.Kind.JOB, job.parent)
    return f"the job is part of step '{job.step}' of a run; {verb} the run instead: {run}"


def refuse_step(job: StepJob, verb: str) -> Problem:
    return conflict(explain_step(job, verb))
