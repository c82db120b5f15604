"""The checker itself: silent where all is well, and loud about each broken promise."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.acceptance.client import Attempt, Failure, Job
from tests.acceptance.receiver import Event
from tests.acceptance.shapes import SendAttempt
from tests.storm.check import check
from tests.storm.evidence import Evidence
from tests.storm.ledger import SUBSCRIPTION, Call, Delivery, Fault, Ledger, Try
from tests.storm.orders import SLOW, Order

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AT = NOW.timestamp()
KEY, CALLBACK = "7.0", "/callback/7.0"
ORDER = Order(7, "echo", "echo", {"x": [[1.0]]}, "y", [2.0])
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
RUN = Attempt(1, "succeeded", "echo", "host-4711-abc", NOW, NOW, 0, None, None)
LOST = msgspec.structs.replace(RUN, status="failed", error_code="worker_lost")
LATE = SendAttempt(1, NOW, 6000, None, "timeout", "")
SECOND = msgspec.structs.replace(RUN, attempt=2)
KILL = Fault("kill", "dispatcher", "dispatcher-1", 4711, AT - 1, AT + 1)


class World:
    """One job that went well, and all that is known of it."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.ledger.tries[KEY] = Try(KEY, ORDER, Call("submit", "accepted", 202, AT, AT), JOB.id)
        self.ledger.deliveries = [tell("dlv_1", CALLBACK, JOB), tell("dlv_2", SUBSCRIPTION, JOB)]
        self.evidence = Evidence({JOB.id: JOB}, {JOB.id: [RUN]})

    @property
    def rules(self) -> set[str]:
        return {found.rule for found in check(self.ledger, self.evidence)}

    def rewrite(self, job: Job, *attempts: Attempt) -> None:
        """The job went another way, and both receivers were told so."""
        self.evidence = Evidence({job.id: job}, {job.id: list(attempts)})
        self.ledger.deliveries = [tell("dlv_1", CALLBACK, job), tell("dlv_2", SUBSCRIPTION, job)]

    def repeat(self, index: int = 0, **changes: object) -> None:
        """One more delivery like an earlier one."""
        self.ledger.deliveries.append(replace(self.ledger.deliveries[index], **changes))  # type: ignore[arg-type]


def tell(delivery_id: str, path: str, job: Job) -> Delivery:
    told = msgspec.structs.replace(job, webhook_status="pending")
    event = Event(f"job.{job.status}", str(job.finished_at), told)
    return Delivery(path, delivery_id, AT, msgspec.json.encode(event), 204, event)


def alter(**changes: object) -> Job:
    return msgspec.structs.replace(JOB, **changes)


FAILED = alter(status="failed", outputs=None, error=Failure("worker_lost", "", True))
LATER = alter(finished_at=NOW + timedelta(seconds=1))
BROKEN: dict[str, tuple[Callable[[World], object], str]] = {
    "lost job": (lambda world: world.evidence.jobs.clear(), "accepted is kept"),
    "never ends": (lambda world: world.rewrite(alter(status="processing", outputs=None)), "ends"),
    "wrong end": (lambda world: world.rewrite(FAILED, LOST), "ends as it must"),
    "canceled unasked": (lambda world: world.rewrite(alter(status="canceled", outputs=None)), "ends as it must"),
    "expired unasked": (lambda world: world.rewrite(alter(status="expired", outputs=None)), "ends as it must"),
    "wrong answer": (lambda world: world.rewrite(alter(outputs=[]), RUN), "the model's answer"),
    "no callback": (lambda world: world.ledger.deliveries.pop(0), f"told at {CALLBACK}"),
    "no subscription": (lambda world: world.ledger.deliveries.pop(1), f"told at {SUBSCRIPTION}"),
    "never taken": (lambda world: world.repeat(id="dlv_3", digest=b"", answer=500), f"told at {CALLBACK}"),
    "told twice": (lambda world: world.repeat(id="dlv_3", digest=b""), f"told at {CALLBACK}"),
    "other state": (lambda world: world.evidence.jobs.update(job_7=LATER), f"told the truth at {CALLBACK}"),
    "not settled": (lambda world: world.rewrite(alter(webhook_status="pending"), RUN), "webhook_status"),
    "other bytes": (lambda world: world.repeat(digest=b"other"), "one id, one event"),
    "two ids": (lambda world: world.repeat(id="dlv_3"), "one event, one id"),
    "forged": (lambda world: world.repeat(event=None, fault="no signature"), "valid webhooks"),
    "other's callback": (lambda world: world.repeat(id="dlv_3", path="/callback/8.0"), "its own callback"),
    "unknown job": (lambda world: world.ledger.tries.clear(), "no webhook without a job"),
    "run again": (lambda world: world.rewrite(alter(attempt=2), LOST, SECOND), "each run has a reason"),
    "run after end": (lambda world: world.rewrite(alter(attempt=2), RUN, SECOND), "one end a life"),
    "odd": (lambda world: world.ledger.odd.append("500"), "nothing odd"),
}


def test_what_went_well_is_no_violation() -> None:
    world = World()
    assert world.rules == set()
    world.repeat()
    assert world.rules == {"no second time without a fault"}
    world.ledger.faults.append(replace(KILL, kind="notifier"))
    assert world.rules == set()
    world.ledger.faults.clear()
    world.evidence.sendings["dlv_1"] = [LATE]
    assert world.rules == set()
    world.repeat(answer=SLOW)  # what the receiver let wait on purpose explains nothing
    assert world.rules == {"no second time without a fault"}
    world.ledger.faults.clear()
    world.rewrite(alter(attempt=2), LOST, SECOND)
    world.ledger.faults.append(KILL)
    assert world.rules == set()
    world.ledger.faults[0] = replace(KILL, pid=4712)  # another's death explains nothing
    assert world.rules == {"each run has a reason"}


@pytest.mark.parametrize(("harm", "rule"), BROKEN.values(), ids=BROKEN)
def test_a_broken_promise_is_found(harm: Callable[[World], object], rule: str) -> None:
    world = World()
    harm(world)
    assert rule in world.rules
