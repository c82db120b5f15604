"""A receiver of webhooks: keeps what comes, answers as it is told, and verifies with the public library."""

import itertools
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

import msgspec
from standardwebhooks.webhooks import Webhook

from deploy.local.ports import HOST, free_ports
from tests.acceptance.client import Job
from tests.acceptance.listening import Listener, Received
from tests.acceptance.waiting import eventually


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a webhook."""

    type: str
    timestamp: str
    data: Job


@dataclass(frozen=True)
class Delivery:
    """One try to deliver, at this unix time."""

    request: Received
    at: float

    @property
    def id(self) -> str:
        return self.request.headers["webhook-id"]

    @property
    def timestamp(self) -> int:
        return int(self.request.headers["webhook-timestamp"])

    def verify(self, secret: str) -> Event:
        """The event; raises standardwebhooks' WebhookVerificationError where the signature is not by this secret."""
        Webhook(secret).verify(self.request.body, self.request.headers)
        return msgspec.json.decode(self.request.body, type=Event)


class Inbox:
    """One path of a receiver: answers with the given statuses in turn, with 204 once they are used up."""

    def __init__(self, url: str, answers: Iterable[int]) -> None:
        self.url = url
        self.answers = deque(answers)
        self.deliveries: list[Delivery] = []

    def take(self, request: Received) -> int:
        self.deliveries.append(Delivery(request, time.time()))
        return self.answers.popleft() if self.answers else HTTPStatus.NO_CONTENT

    async def wait(self, count: int = 1, within: float = 20.0) -> list[Delivery]:
        """The deliveries so far, once there are so many."""

        async def look() -> bool:
            return len(self.deliveries) >= count

        await eventually(look, f"{count} webhooks at {self.url}", within)
        return list(self.deliveries)

    async def wait_for(self, jobs: Sequence[Job], secret: str, within: float = 20.0) -> None:
        """Returns once there is a webhook for each of the jobs; fails where one is of another."""
        deliveries = await self.wait(len(jobs), within)
        assert {delivery.verify(secret).data.id for delivery in deliveries} == {job.id for job in jobs}


class Receiver:
    """Listens on loopback between open() and close(), always on the same port."""

    def __init__(self) -> None:
        self.port = free_ports(1)[0]
        self.inboxes: dict[str, Inbox] = {}
        self.numbers = itertools.count(1)
        self.listener: Listener | None = None

    def open(self) -> None:
        self.listener = Listener(self.take, self.port)

    def close(self) -> None:
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    def inbox(self, *answers: int) -> Inbox:
        """A new inbox, under a path of its own."""
        path = f"/hooks/{next(self.numbers)}"
        self.inboxes[path] = Inbox(f"http://{HOST}:{self.port}{path}", answers)
        return self.inboxes[path]

    def take(self, request: Received) -> int:
        inbox = self.inboxes.get(request.path)
        return HTTPStatus.NOT_FOUND if inbox is None else inbox.take(request)
