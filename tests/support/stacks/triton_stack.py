"""A stack with a Triton of its own, on the broker of another stack."""

from dataclasses import replace
from uuid import uuid4

from deploy.local.servers.server import Server
from deploy.local.settings import Settings
from deploy.local.stack import Stack


class TritonStack(Stack):
    """A stack with an empty virtual host of another stack's broker. All else is its own."""

    def __init__(self, host: Stack, settings: Settings) -> None:
        broker = {"CHARONIA_AMQP_URL": host.rabbitmq.create_vhost(f"triton_{uuid4().hex}")}
        super().__init__(replace(settings, environment={**settings.environment, **broker}))
        self.rabbitmq = host.rabbitmq

    @property
    def servers(self) -> list[Server]:
        """Only what it starts and stops itself."""
        return [self.triton, self.postgres]
