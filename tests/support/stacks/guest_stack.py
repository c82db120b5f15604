"""A stack on the dear servers of another one."""

from dataclasses import replace
from uuid import uuid4

from deploy.local.servers.server import Server
from deploy.local.services import REPOSITORY_KEY
from deploy.local.settings import Settings
from deploy.local.stack import Stack


class GuestStack(Stack):
    """A stack with the Triton of another one, and an empty virtual host of its broker. PostgreSQL is its own."""

    def __init__(self, host: Stack, settings: Settings) -> None:
        shared = {
            "CHARONIA_AMQP_URL": host.rabbitmq.create_vhost(f"guest_{uuid4().hex}"),
            "CHARONIA_TRITON_URL": host.triton.grpc_address,
            REPOSITORY_KEY: host.environment[REPOSITORY_KEY],
        }
        super().__init__(replace(settings, environment={**settings.environment, **shared}))
        self.host = host
        self.triton = host.triton

    @property
    def servers(self) -> list[Server]:
        """Only what it starts and stops itself."""
        return [self.postgres]
