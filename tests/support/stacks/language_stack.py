"""A stack with the language models, and stubs of the backends that need a GPU, on the broker of another stack."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from deploy.local.servers.server import Server
from deploy.local.settings import LANGUAGE_MODELS, Settings
from deploy.local.stack import Stack
from tests.support.language_models import STUBS


class LanguageStack(Stack):
    """A stack with a Triton of its own, and an empty virtual host of another stack's broker. PostgreSQL is its own."""

    def __init__(self, host: Stack, directory: Path, environment: Mapping[str, str]) -> None:
        """`environment` has more variables for the services."""
        settings = replace(Settings.private(directory), model_repository=LANGUAGE_MODELS, models=STUBS)
        broker = {"CHARONIA_AMQP_URL": host.rabbitmq.create_vhost(f"language_{uuid4().hex}")}
        super().__init__(replace(settings, environment={**environment, **broker}))

    @property
    def servers(self) -> list[Server]:
        """Only what it starts and stops itself."""
        return [self.triton, self.postgres]
