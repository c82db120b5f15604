"""A receiver of webhooks. It keeps what it receives, answers as told, and verifies with the public library."""

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

from deploy.local.processes.ports import HOST, free_ports
from tests.support.api.api_client import Job, S
from tests.support.api.api_shapes import Batch, Strict, WebhookDelivery
from tests.support.receivers.threaded_server import Listener, ReceivedRequest, Reply
from tests.support.waiting import eventually

PUBLIC = "whpk_"  # prefix of an ed25519 public key

AnyInbox = TypeVar("AnyInbox", bound="Inbox")


class Event(Strict, frozen=True):
    """The body of a webhook about a job."""

    type: str
    timestamp: str
    sequence: int
    data: Job


class DeliveryExhausted(Strict, frozen=True):
    """The body of `delivery.exhausted`."""

    type: str
    timestamp: str
    data: WebhookDelivery


class WebhookDisabledData(Strict, frozen=True):
    id: str
    url: str
    description: str | None
    status: str
    disabled_at: datetime
    disabled_reason: str


class WebhookDisabled(Strict, frozen=True):
    """The body of `webhook.disabled`."""

    type: str
    timestamp: str
    data: WebhookDisabledData


class BatchCompleted(Strict, frozen=True):
    """The body of `batch.completed`."""

    type: str
    timestamp: str
    data: Batch


@dataclass(frozen=True)
class Delivery:
    """One attempt to deliver, received at this Unix time."""

    request: ReceivedRequest
    at: float

    @property
    def id(self) -> str:
        return self.request.headers["webhook-id"]

    @property
    def timestamp(self) -> int:
        return int(self.request.headers["webhook-timestamp"])

    def verify(self, secret: str) -> Event:
        """Return the event. Raise WebhookVerificationError if this secret did not sign it."""
        return self.read(secret, Event)

    def read(self, secret: str, kind: type[S]) -> S:
        """Return an event of any kind. Raise WebhookVerificationError if this secret did not sign it."""
        Webhook(secret).verify(self.request.body, self.request.headers)
        return msgspec.json.decode(self.request.body, type=kind)

    def is_signed_by(self, secret: str) -> bool:
        """Return whether one of the signatures is by this secret, or matches this ed25519 public key."""
        if secret.startswith(PUBLIC):
            return self._is_signed_by_ed25519(
                Ed25519PublicKey.from_public_bytes(b64decode(secret.removeprefix(PUBLIC)))
            )
        try:
            Webhook(secret).verify(self.request.body, self.request.headers)
        except WebhookVerificationError:
            return False
        return True

    def _is_signed_by_ed25519(self, key: Ed25519PublicKey) -> bool:
        signed = f"{self.id}.{self.timestamp}.".encode() + self.request.body
        for kind, _, signature in (each.partition(",") for each in self.request.headers["webhook-signature"].split()):
            with contextlib.suppress(InvalidSignature):
                if kind == "v1a":
                    key.verify(b64decode(signature), signed)
                    return True
        return False


class Inbox:
    """One path of a receiver. It gives these answers in turn, then 204."""

    def __init__(self, url: str, answers: Iterable[int | Reply] = ()) -> None:
        self.url = url
        self.answers = deque(answers)
        self.deliveries: list[Delivery] = []

    def receive(self, request: ReceivedRequest) -> int | Reply:
        self.deliveries.append(Delivery(request, time.time()))
        with contextlib.suppress(IndexError):  # requests come in threads, so a look at the length says nothing
            return self.answers.popleft()
        return HTTPStatus.NO_CONTENT

    async def wait(self, count: int = 1, within: float = 20.0) -> list[Delivery]:
        """Return the deliveries once there are at least `count`."""

        async def poll() -> bool:
            return len(self.deliveries) >= count

        await eventually(poll, f"{count} webhooks at {self.url}", within)
        return list(self.deliveries)

    async def wait_for(self, jobs: Sequence[Job], secret: str, within: float = 20.0) -> None:
        """Return once there is a webhook for each of these jobs. Fail if one is for another job."""
        expected = {job.id for job in jobs}

        async def poll() -> bool:
            """A repeated webhook replaces none that is missing."""
            found = {delivery.verify(secret).data.id for delivery in self.deliveries}
            assert found <= expected, found - expected
            return found == expected

        await eventually(poll, f"webhooks of {len(expected)} jobs at {self.url}", within)


class Receiver:
    """Listens on loopback between open() and close(), always on the same port."""

    def __init__(self) -> None:
        self.port = free_ports(1)[0]
        self._inboxes: dict[str, Inbox] = {}
        self._numbers = itertools.count(1)
        self._listener: Listener | None = None

    def open(self) -> None:
        self._listener = Listener(self._receive, self.port)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def inbox(self, *answers: int | Reply) -> Inbox:
        """Add an inbox under its own path."""
        return self.add_inbox(lambda url: Inbox(url, answers))

    def add_inbox(self, make: Callable[[str], AnyInbox]) -> AnyInbox:
        """Add an inbox made by `make`, which gets its URL."""
        path = f"/hooks/{next(self._numbers)}"
        self._inboxes[path] = inbox = make(f"http://{HOST}:{self.port}{path}")
        return inbox

    def _receive(self, request: ReceivedRequest) -> int | Reply:
        inbox = self._inboxes.get(request.path)
        return HTTPStatus.NOT_FOUND if inbox is None else inbox.receive(request)
