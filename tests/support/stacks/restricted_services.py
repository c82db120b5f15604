"""A gateway and a notifier that may send to only one loopback address. Their connections are recorded."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from uuid import uuid4

import httpx

from common import ids
from deploy.local.processes.ports import free_ports
from deploy.local.services import DEVELOPMENT_KEY, Service, migrate
from deploy.local.stack import Stack
from tests.support.api.api_client import Api, read
from tests.support.api.api_shapes import WebhookTestResult

DEADLINE = 6.0  # seconds an attempt may take: enough for many at once on a busy machine
ALLOWED, FORBIDDEN = "127.0.0.1", "127.0.0.2"


class RestrictedServices:
    def __init__(self, stack: Stack, folder: Path, authority: Path) -> None:
        """`authority` is the file with the trusted certificates."""
        name = f"restricted_{uuid4().hex}"
        self._names, self._connects = folder / "names.json", folder / "connects"
        self._connects.touch()
        self.set_names({})
        self._environment = stack.environment | {
            "CHARONIA_DATABASE_URL": stack.postgres.create_database(name),
            "CHARONIA_AMQP_URL": stack.rabbitmq.create_vhost(name),
            "CHARONIA_WEBHOOK_NETWORKS": ALLOWED,
            "CHARONIA_DELIVERY_TIMEOUT": str(DEADLINE),
            "SSL_CERT_FILE": str(authority),
            "PYTHONPATH": str(Path(__file__).parents[1] / "recorded_network"),
            "TEST_NAMES": str(self._names),
            "TEST_CONNECTS": str(self._connects),
        }
        self._environment.pop("OTEL_EXPORTER_OTLP_ENDPOINT", None)
        self._log_dir = stack.log_dir
        ports = free_ports(2)
        self.gateway, self.notifier = (
            Service(kind, port, self._environment, stack.log_dir, name=f"restricted-{kind}")
            for kind, port in zip(("gateway", "notifier"), ports, strict=True)
        )
        self._postgres, self._database = stack.postgres, name

    def set_names(self, names: Mapping[str, Sequence[str]]) -> None:
        """Make exactly these names resolve to these addresses from now on."""
        new = self._names.with_suffix(".new")
        new.write_text(json.dumps(names))
        new.rename(self._names)

    @asynccontextmanager
    async def open_client(self) -> AsyncIterator[Api]:
        headers = {"Authorization": f"Bearer {DEVELOPMENT_KEY}"}
        async with httpx.AsyncClient(base_url=self.gateway.url, headers=headers, timeout=40) as http:
            yield Api(http)

    def set_url(self, subscription_id: str, url: str) -> None:
        """Give a subscription a URL that the API refuses, as if it had been allowed earlier."""
        parsed = ids.parse(ids.Kind.WEBHOOK, subscription_id)
        self._postgres.query(f"UPDATE webhooks SET url = '{url}' WHERE id = '{parsed}'", self._database)  # noqa: S608

    def read_connections(self) -> list[str]:
        """Return the addresses that were connected to, in order."""
        return self._connects.read_text().split()

    def reset_peak_memory(self) -> int:
        """Reset the notifier's peak of memory, and return the bytes it uses now."""
        process = Path(f"/proc/{self.notifier.process.pid}")
        (process / "clear_refs").write_text("5")
        return self.read_peak_memory()

    def read_peak_memory(self) -> int:
        """Return the most bytes the notifier has used since the reset."""
        text = Path(f"/proc/{self.notifier.process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) * 1024

    @contextmanager
    def running(self) -> Iterator["RestrictedServices"]:
        try:
            migrate(self._environment, self._log_dir)
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
    """Create subscriptions and yield their ids. Delete them at the end."""
    async with AsyncExitStack() as stack:
        yield [(await stack.enter_async_context(api.subscribed(url))).id for url in urls]


async def send_all(api: Api, subscription_ids: Sequence[str]) -> list[WebhookTestResult]:
    """Send a test event to each subscription at once."""
    return await asyncio.gather(*(send(api, each) for each in subscription_ids))


async def send(api: Api, subscription_id: str) -> WebhookTestResult:
    """Send a test event to a subscription."""
    return read(await api.http.post(f"/v1/webhooks/{subscription_id}/test"), 200, WebhookTestResult)
