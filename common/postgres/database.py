"""The connection pool. Every call has a deadline, and every outage raises the same exception."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeAlias

import asyncpg
from opentelemetry.trace import SpanKind

from common.errors import (
    DatabaseAccessDenied,
    DatabaseUnavailable,
    SchemaError,
    SettingsError,
    StatementTimeout,
)
from common.postgres.failover_watch import FailoverWatch
from common.postgres.hosts import ACCESS_ERRORS, Hosts
from common.postgres.schema_version import check_schema
from common.postgres.session_settings import make_durable, session_settings
from common.telemetry import metrics, tracing

ACQUIRE_SECONDS = 5.0
STATEMENT_SECONDS = 15.0
RELEASE_SECONDS = 1.0  # for the server to confirm a cancelled statement; then its connection is closed
TRANSACTION_SECONDS = STATEMENT_SECONDS + RELEASE_SECONDS
CHECK_SECONDS = 2.0
RETRY_SECONDS = 0.2
MOVES = 5  # how often a statement begins again because a row moved, or after a deadlock
# A statement that the server ended with these has done nothing, and the reason is over: a row that it waited for moved
# to another generation, or a migration locked tables in another order.
PASSING_ERRORS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
# What asyncpg raises while a server is down, starts, stops, fails over, is full or closes connections. InterfaceError
# and InternalClientError mean that a connection broke during a call. A retry also helps after a deadlock, and after a
# migration that adds a column to what a statement returns: outside a transaction, asyncpg repeats that by itself.
OUTAGE_ERRORS = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process stood still in a transaction
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.InvalidCachedStatementError,
)
Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"  # generic in its stubs only


class _Session(asyncpg.Connection):
    async def close(self, *, timeout: float | None = None) -> None:
        """Close without errors: the pool closes broken connections in a task that nobody awaits."""
        with contextlib.suppress(*OUTAGE_ERRORS):
            await super().close(timeout=timeout)


class _Preparation:
    """Prepares new connections. Checks the schema until it has passed once."""

    def __init__(self, *, relaxed: bool) -> None:
        self._relaxed = relaxed
        self._passed = False

    async def __call__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        if not self._passed:
            await check_schema(connection)
            self._passed = True
        if not self._relaxed:
            await make_durable(connection)


class Database:
    """A pool of connections to the host that is read-write."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]", hosts: Hosts) -> None:
        self._pool = pool
        self._hosts = hosts
        self._failover = FailoverWatch(hosts)
        metrics.database_connections_limit.inc(pool.get_max_size())

    @classmethod
    async def connect(cls, url: str, *, size: int = 10, application: str, relaxed: bool = False) -> "Database":
        """Return a pool of at most `size` connections, even while the server is down.

        Commits of a `relaxed` pool do not wait for the disk. A crash of the server may lose those of its last second.

        Raise SettingsError if the server denies access. Raise SchemaError if this version cannot use the schema. The
        first connection checks it: a migration must not stop services that run.
        """
        hosts = Hosts(url)
        connect: Any = hosts.connect  # the stubs want all parameters of asyncpg's function by name
        pool = await asyncpg.create_pool(
            connect=connect,
            min_size=0,
            max_size=size,
            timeout=ACQUIRE_SECONDS,
            command_timeout=STATEMENT_SECONDS,
            connection_class=_Session,
            server_settings=session_settings(application, relaxed=relaxed),
            init=_Preparation(relaxed=relaxed),
            reset=_keep_session,
        )
        database = cls(pool, hosts)
        with contextlib.suppress(DatabaseUnavailable):
            await database._check_access()
        return database

    async def _check_access(self) -> None:
        try:
            await self.fetch("SELECT 1")
        except SchemaError:
            await self.close()
            raise
        except DatabaseAccessDenied as error:
            await self.close()
            raise SettingsError(f"CHARONIA_DATABASE_URL is wrong: {error.__cause__}") from error
        except asyncpg.InsufficientPrivilegeError as error:
            await self.close()
            text = (
                f"CHARONIA_DATABASE_URL is wrong: {error}. Expected the role of the service, such as charonia_gateway."
            )
            raise SettingsError(text) from error

    @property
    def node(self) -> str | None:
        """The host of the last connection: `host:port`. None before the first."""
        return self._hosts.current

    @property
    def can_fail_over(self) -> bool:
        """Whether another host of the URL may become the primary."""
        return self._hosts.can_fail_over

    @contextlib.asynccontextmanager
    async def acquire(self, *, lasting: bool = False) -> AsyncIterator[Connection]:
        """Acquire a connection. Each of its statements has a deadline. Raise DatabaseUnavailable in an outage.

        Raise StatementTimeout if a statement is too slow while the server answers others. A `lasting` block may stay
        open for ever, so its length is no sign of a failover.
        """
        watch = self._failover.watch if self._hosts.can_fail_over and not lasting else contextlib.nullcontext
        with watch():
            async with self._acquire() as connection:
                yield connection

    @contextlib.asynccontextmanager
    async def _acquire(self) -> AsyncIterator[Connection]:
        try:
            with metrics.database_wait_seconds.time():
                connection = await self._pool.acquire(timeout=ACQUIRE_SECONDS)
            interrupted = True
            try:
                with metrics.database_connections.track_inprogress():
                    yield connection
                interrupted = False
            except TimeoutError as error:
                if await self.check():
                    raise StatementTimeout from error
                # The server may have moved. Each other connection to its old address would cost a caller one deadline.
                await self._pool.expire_connections()
                raise
            except asyncpg.ReadOnlySQLTransactionError:
                if self._hosts.can_fail_over:
                    await self._pool.expire_connections()  # the server is no longer the primary
                raise
            finally:
                releasing = self._pool.release(connection, timeout=RELEASE_SECONDS)
                await (finish(releasing) if interrupted else releasing)  # only then the server may have to answer
        except ACCESS_ERRORS as error:
            raise DatabaseAccessDenied(f"database: {type(error).__name__}: {error}") from error
        except OUTAGE_ERRORS as error:
            raise DatabaseUnavailable(f"database: {type(error).__name__}: {error}") from error

    @contextlib.asynccontextmanager
    async def transaction(self, seconds: float = TRANSACTION_SECONDS) -> AsyncIterator[Connection]:
        """Begin a transaction with a deadline of its own. Raise DatabaseUnavailable in an outage."""
        async with self.acquire() as connection, asyncio.timeout(seconds), connection.transaction():
            yield connection

    async def fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        """Run one statement in a transaction of its own. Return its rows. Raise DatabaseUnavailable in an outage.

        A statement that was not sent, because the server had ended its connection, runs on another. One begins again
        that waited for a row which then moved to another generation, or that met a deadlock.
        """
        for _ in range(max(self._pool.get_max_size(), MOVES)):
            try:
                return await self._fetch(query, *values)
            except DatabaseUnavailable as error:
                if not was_ended(error.__cause__) and not isinstance(error.__cause__, PASSING_ERRORS):
                    raise
        return await self._fetch(query, *values)

    async def _fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        async with self.acquire() as connection:
            return await connection.fetch(query, *values)

    async def fetch_one(self, query: str, *values: object) -> asyncpg.Record | None:
        """Return the first row, or None."""
        rows = await self.fetch(query, *values)
        return rows[0] if rows else None

    async def check(self) -> bool:
        """Return whether the server answers soon, for /readyz."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self.fetch("SELECT 1")
        except (TimeoutError, DatabaseUnavailable, SchemaError):
            return False
        return True

    async def retry(self, seconds: float, call: Callable[[], Awaitable[None]]) -> None:
        """Call until it meets no outage. Raise DatabaseUnavailable if it still meets one after the time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                return await call()
            except DatabaseUnavailable:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(RETRY_SECONDS)

    async def close(self) -> None:
        """Let running statements end within 5 seconds, then close their connections."""
        metrics.database_connections_limit.dec(self._pool.get_max_size())
        self._failover.close()
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except TimeoutError:
            self._pool.terminate()


class Settled:
    """Runs statements of a transaction, each again if it waited for a row that then moved to another generation."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        """Run one statement. Return its rows."""
        for _ in range(MOVES):
            with contextlib.suppress(asyncpg.SerializationError):
                async with self._connection.transaction():
                    return await self._connection.fetch(query, *values)
        return await self._connection.fetch(query, *values)


@contextlib.contextmanager
def statement_span(operation: str, table: str) -> Iterator[None]:
    """Start a span for a statement that a job waits for. The statement may carry other jobs too."""
    attributes = {
        "db.system.name": "postgresql",
        "db.operation.name": operation,
        "db.collection.name": table,
        "db.query.summary": f"{operation} {table}",
    }
    with tracing.start_span(f"{operation} {table}", kind=SpanKind.CLIENT, attributes=attributes):
        yield


def was_ended(error: BaseException | None) -> bool:
    """Return whether asyncpg could not send a statement because it had read the server's last message.

    The pool hands out such a connection until the server has closed it, some milliseconds later.
    """
    return isinstance(error, asyncpg.InternalClientError) and str(error).startswith("cannot switch to state")


async def finish(work: Coroutine[Any, Any, None]) -> None:
    """Await work that goes on if its caller is cancelled. Nobody gets its error then."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # asyncio logs an error that nobody gets
    await asyncio.shield(task)


async def _keep_session(_connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Skip the reset of a released connection: we set no session state, and each reset is a commit."""


def to_columns(rows: Sequence[Sequence[object]], count: int) -> list[list[object]]:
    """Return rows as `count` columns, for `unnest`. It also works for no rows."""
    return [[row[index] for row in rows] for index in range(count)]
