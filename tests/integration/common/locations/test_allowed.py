"""What operators let a tenant read and write in buckets."""

from uuid import UUID

from common.locations.allowed import AllowedLocations, Use
from common.locations.location import Location
from common.postgres.database import Database
from services.gateway.commands.locations.store import LocationStore, TenantLocation
from tests.integration.jobs import add_tenant

READABLE, WRITABLE = Location("bucket", "in/"), Location("bucket", "out/")
OWN = "s3://bucket/in/charonia"


async def test_a_tenant_uses_what_is_allowed_and_nothing_else(database: Database, tenant: UUID) -> None:
    store, allowed = LocationStore(database), AllowedLocations(database, OWN)
    await store.allow(tenant, READABLE, read=True, write=False)
    await store.allow(tenant, WRITABLE, read=False, write=True)
    await store.allow(tenant, Location("whole", ""), read=True, write=True)
    readable = {Location("bucket", "in/a"), Location("bucket", "in/b/c"), Location("whole", "x")}
    writable = {Location("bucket", "out/"), Location("bucket", "out/b/"), Location("whole", "x")}
    others = {Location("bucket", "in2/a"), Location("other", "in/a"), Location("bucket", "in/charonia/x")}
    everything = readable | writable | others
    assert await allowed.find(tenant, everything, Use.READ) == readable
    assert await allowed.find(tenant, everything, Use.WRITE) == writable
    assert await allowed.find(await add_tenant(database, "other"), everything, Use.READ) == set()
    await store.allow(tenant, READABLE, read=False, write=True)
    assert await store.revoke(tenant, Location("whole", ""))
    assert not await store.revoke(tenant, Location("whole", ""))
    assert await allowed.find(tenant, everything, Use.READ) == set()
    assert [each[1:] for each in await store.list(tenant)] == [(READABLE, False, True), (WRITABLE, False, True)]


async def test_each_change_is_in_the_audit_log(database: Database, tenant: UUID) -> None:
    store = LocationStore(database)
    for _ in range(2):
        await store.allow(tenant, READABLE, read=True, write=True)
    await store.revoke(tenant, READABLE)
    await store.revoke(tenant, READABLE)
    found = await database.fetch(
        "SELECT actor, action, changes::text FROM audit_log WHERE actor LIKE 'locations %' ORDER BY id"
    )
    assert [tuple(row.values()) for row in found] == [
        ("locations allow", "tenant.updated", '{"locations": {"s3://bucket/in/": ["read", "write"]}}'),
        ("locations revoke", "tenant.updated", '{"locations": {"s3://bucket/in/": []}}'),
    ]
    assert await store.list(None) == list[TenantLocation]()
