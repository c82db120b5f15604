"""What the storm did and observed. Besides the public API, the checker uses nothing else."""

import itertools
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal

from tests.storm.job_requests import JobRequest
from tests.support.api.api_client import TERMINAL
from tests.support.receivers.webhook_receiver import Event

SUBSCRIPTION = "/subscription"
STEADY = "/steady/"  # the paths of the steady load's receivers
TERMINAL_EVENTS = tuple(f"job.{status}" for status in TERMINAL)
Operation = Literal["submit", "cancel", "retry", "erase"]
# `unknown`: the call may have been accepted, but no response said so.
Outcome = Literal["accepted", "unknown", "refused"]


@dataclass(frozen=True)
class Call:
    """A call that changes something, with times in Unix seconds.

    `status` is None without a response. `detail` is the job's status in the response, or what went wrong.
    """

    operation: Operation
    outcome: Outcome
    status: int | None
    began: float
    ended: float
    detail: str = ""


@dataclass
class Submission:
    """One submit of a job request, under a unique key."""

    key: str
    request: JobRequest
    call: Call
    job_id: str | None = None
    cancels: list[Call] = field(default_factory=list)
    retries: list[Call] = field(default_factory=list)
    erasures: list[Call] = field(default_factory=list)


@dataclass(frozen=True)
class Delivery:
    """A webhook as received. `event` is None if it is invalid, and `fault` says why."""

    path: str
    id: str
    at: float
    digest: bytes  # of the body
    response: int | str
    event: Event | None
    fault: str = ""

    @property
    def was_accepted(self) -> bool:
        return isinstance(self.response, int) and self.response < 300


@dataclass(frozen=True)
class Fault:
    """A fault of one process, from `began` until the process was ready again."""

    action: str
    kind: str
    name: str
    pid: int
    began: float
    ended: float
    worker: str = ""  # the name of a dispatcher in its attempts
    started: float = 0.0  # when the process was started again; 0 if it was not


@dataclass
class RoundTrip:
    """A job of the steady load, from its submit to its first webhook, in Unix seconds."""

    began: float
    accepted: bool = False
    ended: float | None = None


@dataclass(frozen=True)
class SlotSample:
    """What the API says at a time of jobs and runs that are over a second old, and of the models with free slots."""

    at: float
    waiting: dict[str, list[str]]  # jobs that nothing but a slot can hold up, by model
    free: set[str]
    standing: frozenset[str] = frozenset()  # runs that have not ended, although none of their jobs waits or runs


@dataclass(frozen=True)
class ModelEvent:
    """What a dispatcher did with a model of its Triton."""

    at: float
    triton: str
    event: str
    model: str
    reason: str = ""


@dataclass
class StormLog:
    submissions: dict[str, Submission] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)  # processes that ended by themselves
    anomalies: list[str] = field(default_factory=list)  # responses of the API that no fault explains
    round_trips: dict[str, RoundTrip] = field(default_factory=dict)  # by the path of the webhook
    slot_samples: list[SlotSample] = field(default_factory=list)
    model_events: list[ModelEvent] = field(default_factory=list)
    settled_at: float = float("inf")  # when the effects of the last fault were over, in Unix seconds
    tritons: int = 1  # each counts by itself how often its models failed

    def add_submission(self, submission: Submission) -> None:
        """Add a submit that has ended. Its webhooks may have come before."""
        self.submissions[submission.key] = submission
        for delivery in itertools.takewhile(lambda each: each.at >= submission.call.began, reversed(self.deliveries)):
            if delivery.event is not None and read_key(delivery.event) == submission.key:
                self.resolve_unknown_submission(delivery.event)

    def resolve_unknown_submission(self, event: Event) -> None:
        """Note that a submit without a response was accepted, because its webhook came."""
        found = self.submissions.get(read_key(event))
        if found is not None and found.job_id is None and found.call.outcome == "unknown":
            found.job_id = event.data.id

    def note_anomaly(self, call: Call) -> None:
        """Note a response that no fault explains."""
        if call.status not in (None, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            self.anomalies.append(f"{call.operation} returned {call.status}: {call.detail}")

    def describe(self) -> str:
        """Return how much has happened."""
        accepted = sum(each.job_id is not None for each in list(self.submissions.values()))
        return f"({accepted} jobs, {len(self.deliveries)} webhooks)"

    @property
    def first_fault_began(self) -> float:
        return min(each.began for each in self.faults)

    @property
    def last_fault_ended(self) -> float:
        return max(each.ended for each in self.faults)

    def note_steady_webhook(self, path: str) -> None:
        trip = self.round_trips[path]
        trip.ended = trip.ended or time.time()

    def list_round_trips(self, after: float, before: float) -> list[float]:
        """Return the seconds of the jobs that were accepted in a time. Those without a webhook took for ever."""
        found = [each for each in self.round_trips.values() if each.accepted and after <= each.began < before]
        return [float("inf") if each.ended is None else each.ended - each.began for each in found]

    def list_erased(self) -> list[str]:
        """Return the jobs that were erased for certain."""
        found = (
            each for each in self.submissions.values() if any(call.outcome == "accepted" for call in each.erasures)
        )
        return [each.job_id for each in found if each.job_id is not None]

    def list_jobs(self) -> list[str]:
        return [each.job_id for each in self.submissions.values() if each.job_id is not None]


def read_key(event: Event) -> str:
    """Return the key of the submission of the event's job."""
    return str(event.data.metadata.get("key"))
