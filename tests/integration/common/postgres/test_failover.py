"""A process notices within 5 seconds that another server has become the primary. A slow primary keeps its connections.

Two servers with the same schema stand for a primary and its standby. The standby is read-only until it is promoted.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

import msgspec
import pytest

from common.errors import DatabaseUnavailable
from common.postgres import database as module
from common.postgres import failover_watch
from common.postgres.database import Database
from common.postgres.hosts import Hosts
from common.server_urls import split_by_node
from deploy.local.processes.ports import free_ports
from deploy.local.servers.postgres import Postgres
from tests.conftest import running
from tests.integration.proxy import Proxy, proxied
from tests.integration.waiting import until

NOTICE_SECONDS = 12.0  # generous for a busy machine; statements that nobody frees hang for 15
WRITE = "INSERT INTO written DEFAULT VALUES"
BACKEND = "SELECT pg_backend_pid()"


class Node(msgspec.Struct):
    server: Postgres
    proxy: Proxy
    name: str

    def kill(self) -> None:
        self.server.kill()

    def freeze(self) -> None:
        self.server.freeze()

    def demote(self) -> None:
        self.server.set_read_only(True)


class Pair(msgspec.Struct):
    url: str
    primary: Node
    standby: Node

    def promote(self) -> None:
        self.standby.server.set_read_only(False)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Postgres]]:
    with ExitStack() as stack:
        found = [Postgres(tmp_path_factory.mktemp("node"), *free_ports(1), durable=False) for _ in range(2)]
        for server in found:
            stack.callback(server.delete)
            stack.enter_context(running(server))
            server.query("CREATE ROLE tests SUPERUSER LOGIN PASSWORD 'tests'")
            server.query("CREATE TABLE written (node text)", "charonia")
        yield found


@pytest.fixture
async def pair(servers: list[Postgres], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    """A primary and its standby, each behind a proxy. The database has no schema of ours."""
    monkeypatch.setattr(module, "check_schema", accept_schema)
    async with AsyncExitStack() as stack:
        primary, standby = [await stack.enter_async_context(behind_proxy(server)) for server in servers]
        standby.demote()
        try:
            yield Pair(f"postgresql://tests:tests@{primary.name},{standby.name}/charonia", primary, standby)
        finally:
            await asyncio.to_thread(restore, primary.server)
            await asyncio.to_thread(restore, standby.server)


async def accept_schema(_connection: object) -> None:
    """Stand for the check of a migrated database."""


@asynccontextmanager
async def behind_proxy(server: Postgres) -> AsyncIterator[Node]:
    async with proxied(server.url) as proxy:
        (name,) = split_by_node(proxy.url_of(server.url))
        yield Node(server, proxy, name)


def restore(server: Postgres) -> None:
    server.thaw()
    if not server.probe():
        server.start()
    server.set_read_only(False)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Database]:
    """Open a pool whose four connections are open."""
    database = await Database.connect(url, size=4, application="tests")
    try:
        await asyncio.gather(*(database.fetch("SELECT pg_sleep(0.1)") for _ in range(4)))
        yield database
    finally:
        await database.close()


async def write(database: Database) -> None:
    """Write, and try again in an outage, as the services do."""
    while True:
        try:
            await database.fetch(WRITE)
        except DatabaseUnavailable:
            await asyncio.sleep(0.05)
        else:
            return


@pytest.mark.parametrize("fault", [Node.kill, Node.freeze, Node.demote])
async def test_statements_go_on_at_the_new_primary(pair: Pair, fault: Callable[[Node], None]) -> None:
    async with connected(pair.url) as database:
        assert database.node == pair.primary.name
        await asyncio.to_thread(fault, pair.primary)
        await asyncio.to_thread(pair.promote)
        await asyncio.wait_for(asyncio.gather(*(write(database) for _ in range(8))), NOTICE_SECONDS)
        assert database.node == pair.standby.name


async def test_statements_that_hang_are_freed_by_a_late_promotion(pair: Pair) -> None:
    async with connected(pair.url) as database:
        pair.primary.proxy.cut_off()
        writing = asyncio.gather(*(write(database) for _ in range(8)))
        await until(lambda: bool(database._failover._slow), "statements hang")
        assert not writing.done()
        await asyncio.to_thread(pair.promote)
        await asyncio.wait_for(writing, NOTICE_SECONDS)
        assert database.node == pair.standby.name


async def test_a_failover_ends_a_connection_that_is_held(pair: Pair) -> None:
    """Such as that of a dispatcher's session lock, which runs no statement meanwhile."""
    ended = asyncio.Event()
    async with connected(pair.url) as database, database.acquire(lasting=True) as held:
        held.add_termination_listener(lambda _: ended.set())
        pair.primary.freeze()
        await asyncio.to_thread(pair.promote)
        await asyncio.wait_for(write(database), NOTICE_SECONDS)
        assert ended.is_set()


async def test_a_slow_primary_keeps_its_connections(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLOW_SECONDS", "LOOK_SECONDS"):
        monkeypatch.setattr(failover_watch, name, 0.05)
    async with connected(pair.url) as database:
        before = {row[0] for row in await asyncio.gather(*(database.fetch_one(BACKEND) for _ in range(4))) if row}
        await asyncio.gather(*(database.fetch("SELECT pg_sleep(1)") for _ in range(4)))
        after = {row[0] for row in await asyncio.gather(*(database.fetch_one(BACKEND) for _ in range(4))) if row}
        assert after <= before
        assert database.node == pair.primary.name


@pytest.mark.parametrize("fault", [Node.kill, Node.freeze, Node.demote])
async def test_a_new_process_finds_the_new_primary(pair: Pair, fault: Callable[[Node], None]) -> None:
    await asyncio.to_thread(fault, pair.primary)
    await asyncio.to_thread(pair.promote)
    hosts = Hosts(pair.url)
    session = await asyncio.wait_for(hosts.connect(timeout=30), NOTICE_SECONDS)
    await session.execute(WRITE)
    await session.close()
    assert hosts.current == pair.standby.name


async def test_no_primary_is_an_outage(pair: Pair) -> None:
    pair.primary.demote()
    database = await Database.connect(pair.url, application="tests")
    with pytest.raises(DatabaseUnavailable):
        await database.fetch("SELECT 1")
    assert not await database.check()
    assert database.node is None
    await database.close()
