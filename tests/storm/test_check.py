"""The checker reports each broken promise, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.storm.api_state import ApiState
from tests.storm.check import check
from tests.storm.job_requests import SLOW, JobRequest
from tests.storm.storm_log import (
    STEADY,
    SUBSCRIPTION,
    Call,
    Delivery,
    Fault,
    ModelEvent,
    RoundTrip,
    StormLog,
    Submission,
)
from tests.support.api.api_client import Attempt, Failure, Job
from tests.support.api.api_shapes import AttemptFailure, SendAttempt
from tests.support.receivers.webhook_receiver import Event

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AT = NOW.timestamp()
KEY, CALLBACK = "7.0", "/callback/7.0"
REQUEST = JobRequest(7, "echo", "echo", {"x": [[1.0]]}, {"y": [2.0]})
UNKNOWN = ("queue_ms", "inference_ms", "total_ms")
JOB = msgspec.convert(
    dict.fromkeys(Job.__struct_fields__[:-1])
    | {"id": "job_7", "status": "succeeded", "model": "echo", "priority": "normal", "webhook_status": "succeeded"}
    | {"attempt": 1, "max_attempts": 8, "created_at": NOW, "run_at": NOW, "started_at": NOW, "finished_at": NOW}
    | {
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 1], "data": [2.0]}],
        "metadata": {"key": KEY},
        "trace_id": "",
        "metrics": dict.fromkeys(UNKNOWN),
    }
    | {"urls": {"self": "", "cancel": "", "events": "", "deliveries": "", "trace": None}},
    Job,
)
RUN = Attempt(1, 1, "succeeded", "echo", "worker-1", NOW, NOW, 0, None)
LOST = msgspec.structs.replace(RUN, status="failed", error=AttemptFailure("worker_lost", ""))
LATE = SendAttempt(1, NOW, 6000, None, AttemptFailure("timeout", ""), "")
SECOND = msgspec.structs.replace(RUN, attempt=2)
KILL = Fault("kill", "dispatcher", "dispatcher-1", 4711, AT - 1, AT + 1, "worker-1")


class Storm:
    """A storm with one job that went well, and all that is known about it."""

    def __init__(self) -> None:
        self.log = StormLog(settled_at=AT + 100)
        self.log.submissions[KEY] = Submission(KEY, REQUEST, Call("submit", "accepted", 202, AT, AT), JOB.id)
        self.log.deliveries = [make_delivery("dlv_1", CALLBACK, JOB), make_delivery("dlv_2", SUBSCRIPTION, JOB)]
        self.state = ApiState({JOB.id: JOB}, attempts={JOB.id: [RUN]})
        for began in (AT - 1000, AT + 1000):  # before all faults, and after them
            trips = (RoundTrip(began + number, accepted=True, ended=began + number + 0.03) for number in range(20))
            self.log.round_trips |= {f"{STEADY}{trip.began}": trip for trip in trips}

    @property
    def violated_rules(self) -> set[str]:
        return {found.rule for found in check(self.log, self.state)}

    def change_outcome(self, job: Job, *attempts: Attempt) -> None:
        """Give the job another outcome, reported to both receivers."""
        self.state = ApiState({job.id: job}, attempts={job.id: list(attempts)})
        self.log.deliveries = [make_delivery("dlv_1", CALLBACK, job), make_delivery("dlv_2", SUBSCRIPTION, job)]

    def repeat(self, index: int = 0, **changes: object) -> None:
        """Add a delivery like an earlier one, with some changes."""
        self.log.deliveries.append(replace(self.log.deliveries[index], **changes))  # type: ignore[arg-type]


def make_delivery(delivery_id: str, path: str, job: Job) -> Delivery:
    data = msgspec.structs.replace(job, webhook_status="pending")
    event = Event(f"job.{job.status}", str(job.finished_at), 2, data)
    return Delivery(path, delivery_id, AT, msgspec.json.encode(event), 204, event)


def change_job(**changes: object) -> Job:
    return msgspec.structs.replace(JOB, **changes)


FAILED = change_job(status="failed", outputs=None, error=Failure("worker_lost", "", True))
PROCESSING, CANCELED, EXPIRED = (
    change_job(status=status, outputs=None) for status in ("processing", "canceled", "expired")
)
PENDING, RETRIED = change_job(webhook_status="pending"), change_job(attempt=2)
FINISHED_LATER = change_job(finished_at=NOW + timedelta(seconds=1))
BROKEN: dict[str, tuple[Callable[[Storm], object], str]] = {
    "lost job": (lambda storm: storm.state.jobs.clear(), "accepted jobs exist"),
    "never ends": (lambda storm: storm.change_outcome(PROCESSING), "jobs end"),
    "wrong end": (lambda storm: storm.change_outcome(FAILED, LOST), "jobs end as expected"),
    "canceled without a request": (lambda storm: storm.change_outcome(CANCELED), "jobs end as expected"),
    "expired without an expiry": (lambda storm: storm.change_outcome(EXPIRED), "jobs end as expected"),
    "wrong output": (lambda storm: storm.change_outcome(change_job(outputs=[]), RUN), "the model's output"),
    "no callback": (lambda storm: storm.log.deliveries.pop(0), f"webhooks at {CALLBACK}"),
    "no subscription": (lambda storm: storm.log.deliveries.pop(1), f"webhooks at {SUBSCRIPTION}"),
    "never accepted": (lambda storm: storm.repeat(id="dlv_3", digest=b"", response=500), f"webhooks at {CALLBACK}"),
    "two ids at one path": (lambda storm: storm.repeat(id="dlv_3", digest=b""), f"webhooks at {CALLBACK}"),
    "other state": (lambda storm: storm.state.jobs.update(job_7=FINISHED_LATER), f"webhook data at {CALLBACK}"),
    "webhooks still pending": (lambda storm: storm.change_outcome(PENDING, RUN), "webhook_status"),
    "other bytes": (lambda storm: storm.repeat(digest=b"other"), "one id means one event"),
    "two ids": (lambda storm: storm.repeat(id="dlv_3"), "one event has one id"),
    "forged": (lambda storm: storm.repeat(event=None, fault="no signature"), "webhooks are valid"),
    "wrong callback": (
        lambda storm: storm.repeat(id="dlv_3", path="/callback/8.0"),
        "callbacks go to their own URL",
    ),
    "unknown job": (lambda storm: storm.log.submissions.clear(), "no webhook without a job"),
    "unexplained attempt": (
        lambda storm: storm.change_outcome(RETRIED, LOST, SECOND),
        "each failed attempt has a cause",
    ),
    "attempt after the end": (lambda storm: storm.change_outcome(RETRIED, RUN, SECOND), "one end between retries"),
    "unexplained response": (lambda storm: storm.log.anomalies.append("500"), "no anomalies"),
}


def test_checker_accepts_storms_without_violations() -> None:
    storm = Storm()
    assert storm.violated_rules == set()
    storm.repeat()
    assert storm.violated_rules == {"no repeated webhook without a fault"}
    storm.log.faults.append(replace(KILL, kind="notifier"))
    assert storm.violated_rules == set()
    storm.log.faults.clear()
    storm.state.delivery_attempts["dlv_1"] = [LATE]
    assert storm.violated_rules == set()
    storm.repeat(response=SLOW)  # a delay on purpose by the receiver explains nothing
    assert storm.violated_rules == {"no repeated webhook without a fault"}
    storm.log.faults.clear()
    storm.change_outcome(RETRIED, LOST, SECOND)
    storm.log.faults.append(KILL)
    assert storm.violated_rules == set()
    storm.log.faults[0] = replace(KILL, worker="worker-2")  # the death of another dispatcher explains nothing
    assert storm.violated_rules == {"each failed attempt has a cause"}


def test_killed_model_may_be_met_long_after_its_kill() -> None:
    storm = Storm()
    crashed = msgspec.structs.replace(LOST, error=AttemptFailure("model_crashed", ""))
    storm.change_outcome(RETRIED, crashed, SECOND)
    killed = replace(KILL, action="kill model", kind="triton", name="triton-1", began=AT - 20, ended=AT - 19)
    storm.log.faults.append(replace(killed, action="freeze"))
    assert storm.violated_rules == {"each failed attempt has a cause"}
    storm.log.faults.append(killed)
    assert storm.violated_rules == set()


def test_webhook_may_come_before_its_submit_ends_without_a_response() -> None:
    storm = Storm()
    storm.log.submissions.clear()
    storm.log.add_submission(Submission(KEY, REQUEST, Call("submit", "unknown", None, AT - 1, AT + 1)))
    assert storm.violated_rules == set()
    storm.state.jobs.clear()
    assert storm.violated_rules == set()  # it may have come after the jobs had been read
    storm.state.missing.add(JOB.id)
    assert storm.violated_rules == {"accepted jobs exist"}


def test_each_triton_counts_the_failures_of_its_models() -> None:
    storm = Storm()
    request = replace(REQUEST, kind="fail_times", model="faulty", failures=1)
    storm.log.submissions[KEY].request = request
    failed = msgspec.structs.replace(RUN, status="failed", error=AttemptFailure("inference_failed", "failed as asked"))
    third = msgspec.structs.replace(RUN, attempt=3)
    storm.change_outcome(change_job(attempt=3), failed, msgspec.structs.replace(failed, attempt=2), third)
    assert storm.violated_rules == {"the model fails as requested"}
    storm.log.tritons = 2
    assert storm.violated_rules == set()
    storm.log.tritons = 1
    storm.log.model_events = [ModelEvent(AT, "triton", "model.unloaded", "work")]
    assert storm.violated_rules == {"the model fails as requested"}
    storm.log.model_events = [ModelEvent(AT, "triton", "model.unloaded", JOB.model)]  # it is loaded again afterwards
    assert storm.violated_rules == set()


def test_a_success_that_was_lost_lets_the_model_fail_again() -> None:
    storm = Storm()
    storm.log.submissions[KEY].request = replace(REQUEST, kind="fail_times", model="faulty", failures=1)
    failed = msgspec.structs.replace(RUN, status="failed", error=AttemptFailure("inference_failed", "failed as asked"))
    again = msgspec.structs.replace(failed, attempt=2)
    lost = msgspec.structs.replace(LOST, attempt=2, status="returned")
    storm.change_outcome(change_job(attempt=3), failed, lost, again, msgspec.structs.replace(RUN, attempt=3))
    storm.log.faults.append(KILL)
    assert storm.violated_rules == set()
    storm.change_outcome(change_job(attempt=3), failed, again, msgspec.structs.replace(RUN, attempt=3))
    assert storm.violated_rules == {"the model fails as requested"}


def test_a_success_that_was_canceled_lets_the_model_fail_again() -> None:
    storm = Storm()
    storm.log.submissions[KEY].request = replace(REQUEST, kind="fail_times", model="faulty", failures=1)
    failed = msgspec.structs.replace(RUN, status="failed", error=AttemptFailure("inference_failed", "failed as asked"))
    storm.change_outcome(RETRIED, failed, SECOND, failed, SECOND)
    assert "the model fails as requested" in storm.violated_rules
    canceled = msgspec.structs.replace(SECOND, status="canceled")
    storm.change_outcome(RETRIED, failed, canceled, failed, SECOND)
    assert storm.violated_rules == set()


@pytest.mark.parametrize(("break_promise", "rule"), BROKEN.values(), ids=BROKEN)
def test_checker_finds_each_broken_promise(break_promise: Callable[[Storm], object], rule: str) -> None:
    storm = Storm()
    break_promise(storm)
    assert rule in storm.violated_rules
