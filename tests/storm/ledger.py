"""What the storm did and saw: the only thing, besides the public API, that the checker may look at."""

from dataclasses import dataclass, field
from typing import Literal

from tests.acceptance.client import TERMINAL
from tests.acceptance.receiver import Event
from tests.storm.orders import Order

SUBSCRIPTION = "/subscription"
TERMINAL_EVENTS = tuple(f"job.{status}" for status in TERMINAL)
What = Literal["submit", "cancel", "retry"]
Outcome = Literal["accepted", "unknown", "refused"]  # unknown: it may have been accepted, and no answer told us


@dataclass(frozen=True)
class Call:
    """A call that changes something; times are unix seconds. `status` is None where no answer came, and `detail` is the
    job's status as answered, or what went wrong."""

    what: What
    outcome: Outcome
    status: int | None
    began: float
    ended: float
    detail: str = ""


@dataclass
class Try:
    """One try to submit an order, under a key that no other has."""

    key: str
    order: Order
    call: Call
    job_id: str | None = None
    cancels: list[Call] = field(default_factory=list)
    retries: list[Call] = field(default_factory=list)


@dataclass(frozen=True)
class Delivery:
    """A webhook as it came; `event` is None where it is not valid, and `fault` says why."""

    path: str
    id: str
    at: float
    digest: bytes  # of the body
    answer: int | str
    event: Event | None
    fault: str = ""


@dataclass(frozen=True)
class Fault:
    """What was broken: a kind of member, its name and process, from `began` until it served again."""

    action: str
    kind: str
    name: str
    pid: int
    began: float
    ended: float


@dataclass
class Ledger:
    tries: dict[str, Try] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)  # of processes that ended by themselves
    odd: list[str] = field(default_factory=list)  # answers of the API that nothing explains

    def adopt(self, event: Event) -> None:
        """A submit whose outcome we do not know was accepted: its webhook came."""
        found = self.tries.get(key_of(event))
        if found is not None and found.job_id is None and found.call.outcome == "unknown":
            found.job_id = event.data.id

    def list_jobs(self) -> list[str]:
        return [each.job_id for each in self.tries.values() if each.job_id is not None]


def key_of(event: Event) -> str:
    """The key of the try that submitted the event's job."""
    return str(event.data.metadata.get("key"))
