"""The pool of connections to PostgreSQL: every call has a deadline, and an outage is one exception."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TypeAlias

import asyncpg
from opentelemetry.trace import SpanKind

from common import metrics, tracing
from common.errors import DatabaseRefused, DatabaseUnavailable, SettingsError

ACQUIRE_SECONDS = 5.0
STATEMENT_SECONDS = 15.0
RELEASE_SECONDS = 1.0  # for a cancelled statement to be acknowledged; then its connection is cut off
TRANSACTION_SECONDS = STATEMENT_SECONDS + RELEASE_SECONDS
CHECK_SECONDS = 2.0
# How statements are planned. Left to itself the server plans most of ours anew each time, as an array of one row looks
# cheaper than one of the ten it reckons with: up to 1.5 ms for what is done in 0.3. That suits whoever asks for this
# and that; whoever does a few things all day keeps a plan for each. It is made without the values, so what reads whole
# tables is left out, small as they may be when the plan is made. Nothing is compiled: that pays for reports, and is
# tried for whatever looks like one.
FRESH_PLANS: Mapping[str, str] = {"jit": "off"}
KEPT_PLANS: Mapping[str, str] = {
    **FRESH_PLANS,
    "plan_cache_mode": "force_generic_plan",
    "enable_mergejoin": "off",
    "enable_hashjoin": "off",
    "enable_seqscan": "off",
}

# What asyncpg raises while a server is down, starting, stopping, failing over, out of room or cutting us off.
# InterfaceError and InternalClientError are its answers to a connection that died under it. A deadlock goes away by
# itself as well.
OUTAGES = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
# Its answers to a URL that is wrong. While we run they may be of its keepers' doing, so then they are an outage too.
REFUSALS = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ClientConfigurationError,
)
Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"  # generic in its stubs only


class Session(asyncpg.Connection):
    async def close(self, *, timeout: float | None = None) -> None:
        """As the pool closes what it no longer trusts, in a task of its own whose failure nobody would see."""
        with contextlib.suppress(*OUTAGES):
            await super().close(timeout=timeout)


class Database:
    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        self.pool = pool

    @classmethod
    async def connect(
        cls, url: str, *, size: int = 10, application: str, planning: Mapping[str, str] = FRESH_PLANS
    ) -> "Database":
        """A pool of at most `size` connections; succeeds while the server is down.

        Raises SettingsError where the server does not let us in.
        """
        settings = {"application_name": application, **planning}
        pool = await asyncpg.create_pool(
            url,
            min_size=0,
            max_size=size,
            timeout=ACQUIRE_SECONDS,
            command_timeout=STATEMENT_SECONDS,
            connection_class=Session,
            server_settings=settings,
            reset=keep_session,
        )
        metrics.database_connections_limit.set(size)
        database = cls(pool)
        with contextlib.suppress(DatabaseUnavailable):
            await database.enter()
        return database

    async def enter(self) -> None:
        """Raises SettingsError where the server does not let us in, DatabaseUnavailable where it is away."""
        try:
            await self.fetch("SELECT 1")
        except DatabaseRefused as error:
            await self.close()
            raise SettingsError(f"CHARONIA_DATABASE_URL is wrong: {error.__cause__}") from error

    @contextlib.asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        """A connection whose every statement has a deadline; raises DatabaseUnavailable where there is none in time."""
        try:
            with metrics.database_wait_seconds.time():
                connection = await self.pool.acquire(timeout=ACQUIRE_SECONDS)
            try:
                with metrics.database_connections.track_inprogress():
                    yield connection
            except TimeoutError:
                # The server may have moved: each other connection to where it was would cost somebody a deadline.
                await self.pool.expire_connections()
                raise
            finally:
                await self.pool.release(connection, timeout=RELEASE_SECONDS)
        except REFUSALS as error:
            raise DatabaseRefused(f"database: {type(error).__name__}: {error}") from error
        except OUTAGES as error:
            raise DatabaseUnavailable(f"database: {type(error).__name__}: {error}") from error

    @contextlib.asynccontextmanager
    async def transaction(self, seconds: float = TRANSACTION_SECONDS) -> AsyncIterator[Connection]:
        """A connection inside a transaction, both with a deadline; raises DatabaseUnavailable."""
        async with self.acquire() as connection, asyncio.timeout(seconds), connection.transaction():
            yield connection

    async def fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        """The rows of one statement, in a transaction of its own; raises DatabaseUnavailable."""
        async with self.acquire() as connection:
            return await connection.fetch(query, *values)

    async def fetch_one(self, query: str, *values: object) -> asyncpg.Record | None:
        rows = await self.fetch(query, *values)
        return rows[0] if rows else None

    async def check(self) -> bool:
        """For /readyz: whether the server answers soon."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self.fetch("SELECT 1")
        except (TimeoutError, DatabaseUnavailable):
            return False
        return True

    async def wait(self, seconds: float) -> None:
        """Returns once the server answers; raises DatabaseUnavailable if it doesn't within the time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                await self.fetch("SELECT 1")
            except DatabaseUnavailable:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(0.2)
            else:
                return

    async def close(self) -> None:
        """Gives running statements a moment, then cuts them off."""
        try:
            await asyncio.wait_for(self.pool.close(), 5)
        except TimeoutError:
            self.pool.terminate()


@contextlib.contextmanager
def statement(operation: str, table: str) -> Iterator[None]:
    """A span for a statement that a job waits for, most often in one batch with those of others."""
    attributes = {
        "db.system.name": "postgresql",
        "db.operation.name": operation,
        "db.collection.name": table,
        "db.query.summary": f"{operation} {table}",
    }
    with tracing.begin(f"{operation} {table}", kind=SpanKind.CLIENT, attributes=attributes):
        yield


async def keep_session(_connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Resets nothing when a connection goes back: no state of a session is ever set, and each reset is a commit."""


def columns(rows: Sequence[Sequence[object]], count: int) -> list[list[object]]:
    """Rows turned into `count` columns, as `unnest` takes them; right for no rows too."""
    return [[row[index] for row in rows] for index in range(count)]
