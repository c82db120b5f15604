"""Private servers for the tests: each is started by the first test that asks for it, and ends with the session."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.ports import free_ports
from deploy.local.postgres import Postgres
from deploy.local.rabbitmq import RabbitMQ
from deploy.local.server import Server
from deploy.local.settings import Settings
from deploy.local.triton import Triton

DEFAULTS = Settings()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL; a test makes itself databases with `create_database`."""
    server = Postgres(tmp_path_factory.mktemp("postgres"), *free_ports(1), durable=False)
    try:
        with running(server):
            yield server
    finally:
        server.delete()


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A RabbitMQ; a test makes itself virtual hosts with `create_vhost`."""
    port, dist_port, epmd_port = free_ports(3)
    with running(server := RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), port, dist_port, epmd_port)):
        yield server


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """A Triton with the models of deploy/models, untraced."""
    grpc_port, http_port, metrics_port = free_ports(3)
    directory: Path = tmp_path_factory.mktemp("triton")
    server = Triton(directory, DEFAULTS.model_repository, grpc_port, http_port, metrics_port, DEFAULTS.triton_venv)
    with running(server):
        yield server


@contextlib.contextmanager
def running(server: Server) -> Iterator[None]:
    try:
        server.start()
        yield
    finally:
        server.stop()
