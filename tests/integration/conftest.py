"""A migrated database for each test, and a virtual host for each module."""

from collections.abc import AsyncIterator, Iterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from common import ids
from common.postgres import session_settings
from common.postgres.database import Database
from common.postgres.migrate import migrate
from deploy.local.processes.ports import free_ports
from deploy.local.servers.postgres import Postgres
from deploy.local.servers.rabbitmq import RabbitMQ
from tests.conftest import running
from tests.integration.jobs import add_tenant
from tests.support.database.checks import add_checks
from tests.support.database.standby import NAME, Standby
from tests.support.database.temporary import Databases, open_databases

TEMPLATE = "migrated"
VHOSTS = 3  # at once: as many as most workers need


@pytest.fixture(scope="session")
async def template(postgres: Postgres) -> str:
    """A migrated database that nobody is connected to. A trigger checks how statements move jobs."""
    url = postgres.create_database(TEMPLATE)
    await migrate(url)
    await add_checks(url)
    return TEMPLATE


@pytest.fixture(scope="session")
async def databases(postgres: Postgres) -> AsyncIterator[Databases]:
    async with open_databases(postgres) as opened:
        yield opened


@pytest.fixture
async def database_url(databases: Databases, template: str) -> AsyncIterator[str]:
    async with databases.create(template) as url:
        yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A pool whose transactions may stand still. Tests hold locks on purpose, and for longer than services may."""
    patient = {**session_settings.ABANDONED, "idle_in_transaction_session_timeout": "2min"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_settings, "ABANDONED", patient)
        pool = await Database.connect(database_url, application="tests")
    yield pool
    await pool.close()


@pytest.fixture
async def tenant(database: Database) -> UUID:
    return await add_tenant(database, "default")


@pytest.fixture(scope="module")
async def schema(databases: Databases, template: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A connection to a migrated database, shared by the tests of a module that change nothing."""
    async with databases.create(template) as url:
        connection = await asyncpg.connect(url)
        yield connection
        await connection.close()


@pytest.fixture(scope="session")
def vhosts(rabbitmq: RabbitMQ) -> Iterator[str]:
    """The URLs of virtual hosts that nobody uses, without end."""

    def create() -> Iterator[str]:
        while True:
            yield from rabbitmq.create_vhosts([f"test_{uuid4().hex}" for _ in range(VHOSTS)])

    return create()


@pytest.fixture(scope="module")
def amqp_url(vhosts: Iterator[str]) -> str:
    return next(vhosts)


@pytest.fixture
def model() -> str:
    """A model name that no other test uses."""
    return f"m{ids.new().hex}"


@pytest.fixture(scope="module")
def primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server of its own, for a standby to follow."""
    server = Postgres(tmp_path_factory.mktemp("primary"), *free_ports(1), durable=False)
    try:
        with running(server):
            yield server
    finally:
        server.delete()


@pytest.fixture(scope="module")
def standby(primary: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standby]:
    """The synchronous standby of `primary`. Commits wait for it."""
    server = Standby(primary, tmp_path_factory.mktemp("standby"), *free_ports(1))
    try:
        with running(server):
            primary.query(f"ALTER SYSTEM SET synchronous_standby_names = '{NAME}'")
            primary.query("SELECT pg_reload_conf()")
            yield server
    finally:
        server.delete()
