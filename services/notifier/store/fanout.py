"""Creates the deliveries of events."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from common import ids
from common.errors import Unavailable
from common.postgres import sql
from common.postgres.database import Connection, Database
from services.notifier.endpoint_mutex import EndpointMutex
from services.notifier.store.claims import Claim, read_claim

QUERIES = sql.load("services.notifier.store", "fanout.sql")


class ClaimOptions(NamedTuple):
    """How deliveries are created and claimed: `delay` and `lease` are in seconds."""

    delay: float  # before the first attempt
    lease: float
    endpoint_concurrency: int
    limit: int  # claims


class Receiver(NamedTuple):
    """A receiver of a deferred event: a subscription, or a callback to a tenant's origin."""

    tenant_id: UUID
    endpoint_id: UUID | None
    origin: str | None


class FanoutResult(NamedTuple):
    deliveries: int
    due: bool  # whether an endpoint with unclaimed deliveries is due now
    claims: list[Claim]
    deferred: list[Receiver]  # of the events that need another try, with locks


class FanoutStore:
    def __init__(self, database: Database, mutex: EndpointMutex) -> None:
        self._database = database
        self._mutex = mutex

    async def fan_out(self, events: Mapping[UUID, str], options: ClaimOptions) -> FanoutResult:
        """Create the deliveries of events (with traceparents), and claim those that can be sent at once."""
        async with self._mutex.hold():
            return await fan_out(self._database, events, options)

    async def fan_out_with_locks(
        self, deferred: Sequence[Receiver], events: Mapping[UUID, str], options: ClaimOptions
    ) -> FanoutResult:
        """Fan out deferred events with their endpoints locked.

        Raises Unavailable if some are deferred again.
        """
        callbacks = list({(each.tenant_id, each.origin) for each in deferred if each.origin is not None})
        tenants, origins = [tenant for tenant, _ in callbacks], [origin for _, origin in callbacks]
        webhooks = [each.endpoint_id for each in deferred if each.origin is None]
        async with self._mutex.hold(), self._database.transaction() as connection:
            await lock_events(connection, list(events))
            await add_endpoints(connection, tenants, origins)
            await lock_receivers(connection, webhooks, tenants, origins)
            result = await fan_out(connection, events, options)
            if result.deferred:
                raise Unavailable("an endpoint was added or removed during the fan-out; the event will be retried")
        return result

    async def find_missed_events(self, age: float, limit: int) -> dict[UUID, str]:
        """Return events not fanned out for `age` seconds, with the traceparents of their jobs."""
        found = await self._database.fetch(QUERIES["find_missed_events"], age, limit)
        return {record["id"]: record["traceparent"] for record in found}


async def fan_out(
    connection: "Connection | Database", events: Mapping[UUID, str], options: ClaimOptions
) -> FanoutResult:
    """Create deliveries; see the query for when an event is deferred."""
    found = await connection.fetch(QUERIES["fan_out"], list(events), list(events.values()), *options)
    claims = [read_claim(each) for each in found if each["is_deferred"] is False]
    deferred = [
        Receiver(each["tenant_id"], each["endpoint_id"], each["origin"]) for each in found if each["is_deferred"]
    ]
    return FanoutResult(found[0]["deliveries"], found[0]["due"], claims, deferred)


async def lock_events(connection: Connection, events: Sequence[UUID]) -> None:
    """Lock events before their endpoints."""
    await connection.execute(QUERIES["lock_events"], events)


async def add_endpoints(connection: Connection, tenants: Sequence[UUID], origins: Sequence[str]) -> None:
    """Add the callback endpoints that are missing."""
    await connection.execute(QUERIES["add_endpoints"], [ids.new() for _ in tenants], tenants, origins)


async def lock_receivers(
    connection: Connection, webhooks: Sequence[UUID | None], tenants: Sequence[UUID], origins: Sequence[str]
) -> None:
    """Lock the endpoints of subscriptions and callbacks."""
    await connection.execute(QUERIES["lock_receivers"], webhooks, tenants, origins)
