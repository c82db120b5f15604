"""A receiver of webhooks: keeps what comes, answers as it is told, and verifies with the public library."""

import contextlib
import itertools
import time
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from deploy.local.ports import HOST, free_ports
from tests.acceptance.client import Job, S
from tests.acceptance.listening import Listener, Received, Reply
from tests.acceptance.shapes import Batch, Strict, WebhookDelivery
from tests.acceptance.waiting import eventually

PUBLIC = "whpk_"  # how an ed25519 public key begins

AnyInbox = TypeVar("AnyInbox", bound="Inbox")


class Event(Strict, frozen=True):
    """The body of a webhook about a job."""

    type: str
    timestamp: str
    data: Job


class GivenUp(Strict, frozen=True):
    """The body of `delivery.exhausted`."""

    type: str
    timestamp: str
    data: WebhookDelivery


class DisabledData(Strict, frozen=True):
    id: str
    url: str
    description: str | None
    status: str
    disabled_at: datetime
    disabled_reason: str


class Disabled(Strict, frozen=True):
    """The body of `webhook.disabled`."""

    type: str
    timestamp: str
    data: DisabledData


class Completed(Strict, frozen=True):
    """The body of `batch.completed`."""

    type: str
    timestamp: str
    data: Batch


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
        return self.read(secret, Event)

    def read(self, secret: str, kind: type[S]) -> S:
        """As `verify`, for events of any kind."""
        Webhook(secret).verify(self.request.body, self.request.headers)
        return msgspec.json.decode(self.request.body, type=kind)

    def is_by(self, secret: str) -> bool:
        """Whether one of its signatures is by this secret, or for an ed25519 public key by its other half."""
        if secret.startswith(PUBLIC):
            return self.is_by_ed25519(Ed25519PublicKey.from_public_bytes(b64decode(secret.removeprefix(PUBLIC))))
        try:
            Webhook(secret).verify(self.request.body, self.request.headers)
        except WebhookVerificationError:
            return False
        return True

    def is_by_ed25519(self, key: Ed25519PublicKey) -> bool:
        signed = f"{self.id}.{self.timestamp}.".encode() + self.request.body
        for kind, _, signature in (each.partition(",") for each in self.request.headers["webhook-signature"].split()):
            with contextlib.suppress(InvalidSignature):
                if kind == "v1a":
                    key.verify(b64decode(signature), signed)
                    return True
        return False


class Inbox:
    """One path of a receiver: answers as given, in turn, and with 204 once that is used up."""

    def __init__(self, url: str, answers: Iterable[int | Reply] = ()) -> None:
        self.url = url
        self.answers = deque(answers)
        self.deliveries: list[Delivery] = []

    def take(self, request: Received) -> int | Reply:
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

    def inbox(self, *answers: int | Reply) -> Inbox:
        """A new inbox, under a path of its own."""
        return self.place(lambda url: Inbox(url, answers))

    def place(self, make: Callable[[str], AnyInbox]) -> AnyInbox:
        """A new inbox of a kind of its own, made with its URL."""
        path = f"/hooks/{next(self.numbers)}"
        self.inboxes[path] = inbox = make(f"http://{HOST}:{self.port}{path}")
        return inbox

    def take(self, request: Received) -> int | Reply:
        inbox = self.inboxes.get(request.path)
        return HTTPStatus.NOT_FOUND if inbox is None else inbox.take(request)
