"""A gateway and a notifier of their own, which may send to one address of loopback only, and whose world is watched."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import httpx

from common import ids
from deploy.local.ports import free_ports
from deploy.local.services import DEVELOPMENT_KEY, Service, migrate
from deploy.local.stack import Stack
from tests.acceptance.client import Api, read
from tests.acceptance.shapes import Strict

DEADLINE = 2.0  # seconds of an attempt
ALLOWED, FORBIDDEN = "127.0.0.1", "127.0.0.2"


class Tested(Strict, frozen=True):
    """The attempt that `POST /v1/webhooks/{id}/test` made."""

    delivery_id: str
    number: int
    started_at: datetime
    latency_ms: int
    status_code: int | None
    error: str | None
    response: str


class Guard:
    def __init__(self, stack: Stack, folder: Path, authority: Path) -> None:
        """`authority` is the file of the certificates that are trusted."""
        name = f"guard_{uuid4().hex}"
        self.names, self.connects = folder / "names.json", folder / "connects"
        self.connects.touch()
        self.answer({})
        self.environment = stack.environment | {
            "CHARONIA_DATABASE_URL": stack.postgres.create_database(name),
            "CHARONIA_AMQP_URL": stack.rabbitmq.create_vhost(name),
            "CHARONIA_ALLOWED_NETWORKS": ALLOWED,
            "CHARONIA_DELIVERY_TIMEOUT": str(DEADLINE),
            "SSL_CERT_FILE": str(authority),
            "PYTHONPATH": str(Path(__file__).parent / "guarded"),
            "TEST_NAMES": str(self.names),
            "TEST_CONNECTS": str(self.connects),
        }
        self.environment.pop("OTEL_EXPORTER_OTLP_ENDPOINT", None)
        self.log_dir = stack.log_dir
        ports = free_ports(2)
        self.gateway, self.notifier = (
            Service(kind, port, self.environment, stack.log_dir, name=f"guarded-{kind}")
            for kind, port in zip(("gateway", "notifier"), ports, strict=True)
        )
        self.postgres, self.database = stack.postgres, name

    def answer(self, names: Mapping[str, Sequence[str]]) -> None:
        """From now on these names have these addresses, and no other."""
        fresh = self.names.with_suffix(".new")
        fresh.write_text(json.dumps(names))
        fresh.rename(self.names)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Api]:
        headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
        async with httpx.AsyncClient(base_url=self.gateway.url, headers=headers, timeout=40) as http:
            yield Api(http)

    def move(self, subscription_id: str, url: str) -> None:
        """Gives a subscription a URL that the API would refuse, as if it had been made when that was allowed."""
        parsed = ids.parse(ids.Kind.WEBHOOK, subscription_id)
        self.postgres.query(f"UPDATE webhooks SET url = '{url}' WHERE id = '{parsed}'", self.database)  # noqa: S608

    def connected(self) -> list[str]:
        """The addresses that were connected to, in order."""
        return self.connects.read_text().split()

    def memory(self) -> int:
        """Bytes that the notifier has in memory now; its peak is measured from here on."""
        process = Path(f"/proc/{self.notifier.process.pid}")
        (process / "clear_refs").write_text("5")
        return self.peak()

    def peak(self) -> int:
        """The most bytes that the notifier had in memory since."""
        text = Path(f"/proc/{self.notifier.process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) * 1024

    @contextmanager
    def running(self) -> Iterator["Guard"]:
        try:
            migrate(self.environment, self.log_dir)
            for service in (self.gateway, self.notifier):
                service.launch()
            for service in (self.gateway, self.notifier):
                service.wait_ready()
            yield self
        finally:
            for service in (self.gateway, self.notifier):
                service.stop()


@asynccontextmanager
async def subscribe(api: Api, urls: Sequence[str]) -> AsyncIterator[list[str]]:
    """The ids of subscriptions, deleted at the end."""
    async with AsyncExitStack() as stack:
        yield [(await stack.enter_async_context(api.subscribed(url))).id for url in urls]


async def send_all(api: Api, subscription_ids: Sequence[str]) -> list[Tested]:
    """One attempt at each, now and at once."""
    return await asyncio.gather(*(send(api, each) for each in subscription_ids))


async def send(api: Api, subscription_id: str) -> Tested:
    """One attempt, now."""
    return read(await api.http.post(f"/v1/webhooks/{subscription_id}/test"), 200, Tested)
