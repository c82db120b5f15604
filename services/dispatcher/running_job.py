"""A job that this dispatcher runs now."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

from opentelemetry.trace import INVALID_SPAN, Span

from common import job_spans
from common.rabbitmq import topology
from common.views.job import JobRow
from services.dispatcher.claims.claimed_job import ClaimedJob
from services.dispatcher.triton.attempt import InferenceResult

ClaimKey = tuple[UUID, int]  # a job and its claim


@dataclass
class RunningJob:
    """A claimed job, the task that runs it to its end, and what that task waits for: the inference, then the save."""

    job: ClaimedJob
    task: asyncio.Task[None] | None = None
    inference: asyncio.Task[InferenceResult] | None = None
    save: asyncio.Task[None] | None = None
    canceling: bool = False
    recording: bool = False  # the inference is over; its result is being recorded
    has_slot: bool = True
    is_probe: bool = False  # of the model's breaker
    span: Span = INVALID_SPAN

    @property
    def key(self) -> ClaimKey:
        return self.job.row.id, self.job.claim

    def cancel(self) -> None:
        """Cancel the inference, or the save of its result, because a client asked for it."""
        self.canceling = True
        self.span.add_event("canceling")
        for task in (self.inference, self.save):
            if task is not None:
                task.cancel()


def span_attributes(row: JobRow) -> dict[str, str | int]:
    """Return the attributes of a job's consumer span."""
    return {
        "messaging.system": "rabbitmq",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": topology.job_queue(row.model, row.priority),
        **job_spans.job_attributes(row),
    }
