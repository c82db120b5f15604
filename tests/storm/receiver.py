"""The receiver of all webhooks: verifies and keeps what comes, and answers as each order wants."""

import asyncio
import hashlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import msgspec
from aiohttp import web
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from deploy.local.ports import HOST
from tests.acceptance.receiver import Event
from tests.storm import orders
from tests.storm.ledger import SUBSCRIPTION, Delivery, Ledger
from tests.storm.orders import OTHER_ANSWERS, Answer

LATE_SECONDS = 8.0  # longer than the notifier waits for an answer
SUBSCRIPTION_FAILS = 0.03  # of the webhooks to the subscription


class Receiver:
    def __init__(self, ledger: Ledger, seed: int) -> None:
        self.ledger = ledger
        self.chance = random.Random(seed)  # noqa: S311 - a test's
        self.secrets: dict[str, Webhook] = {}
        self.answers: dict[str, deque[Answer]] = {}
        self.url = ""
        self.listeners: list[Callable[[Event], None]] = []

    def trust(self, path: str, secret: str) -> None:
        """What comes to paths that begin so is signed with this secret."""
        self.secrets[path] = Webhook(secret)

    def expect(self, key: str, answers: tuple[Answer, ...]) -> str:
        """The URL of a callback, and what it answers before it takes one."""
        path = f"/callback/{key}"
        self.answers[path] = deque(answers)
        return self.url + path

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        runner = web.ServerRunner(web.Server(self.take), shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        self.url = f"http://{HOST}:{runner.addresses[0][1]}"
        yield
        await runner.cleanup()

    async def take(self, request: web.BaseRequest) -> web.Response:
        body, path = await request.read(), request.path
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = self.choose(path)
        event, fault = self.verify(path, body, headers)
        digest = hashlib.sha256(body).digest()
        delivery = Delivery(path, headers.get("webhook-id", ""), time.time(), digest, answer, event, fault)
        self.ledger.deliveries.append(delivery)
        if event is not None:
            self.ledger.adopt(event)
            for listener in self.listeners:
                listener(event)
        match answer:
            case int():
                return web.Response(status=answer)
            case orders.SLOW:
                await asyncio.sleep(LATE_SECONDS)
            case _ if request.transport is not None:
                request.transport.abort()
        return web.Response()

    def choose(self, path: str) -> Answer:
        if path == SUBSCRIPTION:
            return self.chance.choice(OTHER_ANSWERS) if self.chance.random() < SUBSCRIPTION_FAILS else 204
        waiting = self.answers.get(path)
        return waiting.popleft() if waiting else HTTPStatus.NO_CONTENT

    def verify(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[Event | None, str]:
        """At once, because the library refuses timestamps older than five minutes."""
        webhook = next((known for prefix, known in self.secrets.items() if path.startswith(prefix)), None)
        if webhook is None:
            return None, "no webhook was asked for at this path"
        try:
            webhook.verify(body, headers)
            return msgspec.json.decode(body, type=Event), ""
        except (WebhookVerificationError, msgspec.DecodeError) as error:
            return None, repr(error)
