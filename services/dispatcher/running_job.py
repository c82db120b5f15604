"""A job that this dispatcher runs now."""

import asyncio
import time
from dataclasses import dataclass, field

from opentelemetry.trace import INVALID_SPAN, Span

from common import job_spans
from common.jobs.job import ClaimKey, Job, JobToRun
from common.rabbitmq import topology
from services.dispatcher import metrics
from services.dispatcher.claims.input_budget import NO_ROOM, Room
from services.dispatcher.models.served_model import ServedModel
from services.dispatcher.triton.attempt import InferenceResult


@dataclass
class RunningJob:
    """A claimed job, the task that runs it to its end, and what that task waits for: the inference, then the save."""

    job: JobToRun
    task: asyncio.Task[None] | None = None
    inference: asyncio.Task[InferenceResult] | None = None
    save: asyncio.Task[None] | None = None
    canceling: bool = False
    recording: bool = False  # the inference is over; its result is being recorded
    has_slot: bool = True
    is_saving: bool = False  # it gave its slot back before its result was saved
    fetched: Room = NO_ROOM  # taken after the claim
    is_probe: bool = False  # of the model's breaker
    in_triton: bool = False  # its inference was sent
    began: float = field(default_factory=time.monotonic)  # when it was sent, or claimed
    waiting_seconds: float = 0.0  # of a suspect, until the jobs beside it had ended
    reading_seconds: float = 0.0  # until its inputs from files and URLs were there
    span: Span = INVALID_SPAN

    @property
    def key(self) -> ClaimKey:
        return self.job.key

    def note_sent(self) -> None:
        """Note that the inference is sent: from now on, the job may be what stops Triton."""
        self.in_triton, self.began = True, time.monotonic()

    def release_before_save(self, model: ServedModel) -> None:
        """Give the slot back, if the model's limit allows it: the result or the last responses are being saved."""
        if self.has_slot and model.concurrency.release_before_save():
            self.has_slot, self.is_saving = False, True
            metrics.slots_used.labels(model.name).dec()

    def cancel(self) -> None:
        """Cancel the inference, or the save of its result, because a client asked for it."""
        self.canceling = True
        self.span.add_event("canceling")
        for task in (self.inference, self.save):
            if task is not None:
                task.cancel()


def span_attributes(row: Job) -> dict[str, str | int]:
    """Return the attributes of a job's consumer span."""
    return {
        "messaging.system": "rabbitmq",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": topology.job_queue(row.model, row.priority),
        **job_spans.job_attributes(row),
    }
