"""The receiver of all webhooks. It verifies and keeps each webhook, and responds as its job request says."""

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

from deploy.local.processes.ports import HOST
from tests.storm import job_requests
from tests.storm.job_requests import BAD_RESPONSES, Response
from tests.storm.storm_log import STEADY, SUBSCRIPTION, Delivery, StormLog
from tests.support.receivers.webhook_receiver import Event

SLOW_SECONDS = 8.0  # longer than the notifier waits for a response
GONE = "/gone"  # the subscription of another tenant: it always answers 410
SUBSCRIPTION_FAILURE_RATE = 0.03  # share of the webhooks to the subscription


class Receiver:
    def __init__(self, log: StormLog, seed: int, address: str = HOST) -> None:
        self._log = log
        self._address = address
        self._rng = random.Random(seed)  # noqa: S311 - a test's
        self._secrets: dict[str, Webhook] = {}
        self._responses: dict[str, deque[Response]] = {}
        self.url = ""
        self.listeners: list[Callable[[Delivery], None]] = []

    def set_secret(self, path: str, secret: str) -> None:
        """Set the secret that signs webhooks to paths with this prefix."""
        self._secrets[path] = Webhook(secret)

    def add_callback(self, key: str, responses: tuple[Response, ...]) -> str:
        """Return the URL of a callback that gives these responses before it accepts webhooks."""
        path = f"/callback/{key}"
        self._responses[path] = deque(responses)
        return self.url + path

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        runner = web.ServerRunner(web.Server(self._receive), shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, self._address, 0).start()
        self.url = f"http://{self._address}:{runner.addresses[0][1]}"
        yield
        await runner.cleanup()

    async def _receive(self, request: web.BaseRequest) -> web.Response:
        body, path = await request.read(), request.path
        if path == GONE:
            return web.Response(status=HTTPStatus.GONE)
        if path.startswith(STEADY):
            self._log.note_steady_webhook(path)
            return web.Response()
        headers = {name.lower(): value for name, value in request.headers.items()}
        response = self._choose_response(path)
        event, fault = self._verify(path, body, headers)
        digest = hashlib.sha256(body).digest()
        delivery = Delivery(path, headers.get("webhook-id", ""), time.time(), digest, response, event, fault)
        self._log.deliveries.append(delivery)
        if event is not None:
            self._log.resolve_unknown_submission(event)
            for listener in self.listeners:
                listener(delivery)
        match response:
            case int():
                return web.Response(status=response)
            case job_requests.SLOW:
                await asyncio.sleep(SLOW_SECONDS)
            case _ if request.transport is not None:
                request.transport.abort()
        return web.Response()

    def _choose_response(self, path: str) -> Response:
        if path == SUBSCRIPTION:
            return self._rng.choice(BAD_RESPONSES) if self._rng.random() < SUBSCRIPTION_FAILURE_RATE else 204
        remaining = self._responses.get(path)
        return remaining.popleft() if remaining else HTTPStatus.NO_CONTENT

    def _verify(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[Event | None, str]:
        """Verify a webhook on arrival, because the library refuses timestamps older than five minutes."""
        webhook = next((each for prefix, each in self._secrets.items() if path.startswith(prefix)), None)
        if webhook is None:
            return None, "no webhook was requested at this path"
        try:
            webhook.verify(body, headers)
            return msgspec.json.decode(body, type=Event), ""
        except (WebhookVerificationError, msgspec.DecodeError) as error:
            return None, repr(error)
