"""Each change and its audit entry are written together, or not at all."""

import asyncio
from typing import get_args

import asyncpg
import pytest

from common.postgres.audit_log import Action
from common.postgres.database import Database
from services.gateway.http.problems import Problem
from tests.integration.gateway.admin.audit.changes import CHANGES, Change
from tests.integration.gateway.admin.audit.world import MODEL, PIPELINE, TENANT, Entry, World

REFUSE = "ALTER TABLE audit_log ADD CONSTRAINT refuses_all CHECK (false) NOT VALID"
TABLES = ("tenants", "api_keys", "model_limits", "webhooks", "old_secrets", "pipelines")
UNCHANGED = {  # what is set already
    "revoke a key": lambda world: world.keys("revoke", world.caller.actor),
    "limit a queue": lambda world: world.keys("tenant", TENANT, "--max-queued", "5"),
    "pause a tenant": lambda world: world.limits("tenant", TENANT, "--pause"),
    "set a retention": lambda world: world.limits("tenant", TENANT, "--retention", "60"),
    "limit and pause a model": lambda world: world.limits("model", MODEL, "--pause", "--max-running", "3"),
    "change a webhook": lambda world: world.change_webhook(events=["job.failed"], rate_limit=None),
    "enable a webhook": World.enable_webhook,
    "disable a webhook by hand": World.disable_webhook,
    "add the bootstrap key": World.add_bootstrap_key,
    "store a pipeline": World.store_pipeline,
    "delete a pipeline": World.delete_pipeline,
}


@pytest.fixture
async def world(database: Database, database_url: str) -> World:
    world = World(database, database_url)
    await world.prepare()
    return world


async def dump(database: Database) -> list[str]:
    """Return all that the audit log is about, in a fixed order."""
    rows = [await database.fetch(f"SELECT t::text AS row FROM {table} t") for table in TABLES]  # noqa: S608 -- constants
    return sorted(record["row"] for found in rows for record in found)


async def prepare(world: World, change: Change) -> None:
    if change.before is not None:
        await change.before(world)
        await world.database.fetch("TRUNCATE audit_log")


def test_every_action_is_tested() -> None:
    assert {action for change in CHANGES.values() for action in change.entries} == {*get_args(Action)}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_change_has_its_entry(world: World, change: Change) -> None:
    await prepare(world, change)
    await change.make(world)
    entries = await world.read_entries()
    assert {entry.action: entry.changes for entry in entries} == change.entries
    assert len(entries) == len(change.entries)
    assert {entry.actor for entry in entries} == {world.caller.actor if change.actor == "key" else change.actor}
    known = {"tenant": world.tenant, "key": world.caller.actor, "webhook": world.webhook, MODEL: MODEL}
    known[PIPELINE] = PIPELINE
    if change.target == "new":
        assert not {entry.target for entry in entries} & {*known.values()}
    else:
        assert {entry.target for entry in entries} == {known[change.target]}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_change_without_its_entry_is_undone(world: World, change: Change) -> None:
    await prepare(world, change)
    before = await dump(world.database)
    await world.database.fetch(REFUSE)
    with pytest.raises(asyncpg.CheckViolationError, match="refuses_all"):
        await change.make(world)
    assert await dump(world.database) == before


async def test_an_entry_without_its_change_is_undone(world: World) -> None:
    for _ in range(4):
        await world.rotate_webhook()
    with pytest.raises(Problem, match="old secrets are still in their grace period"):
        await world.rotate_webhook()
    assert [entry.action for entry in await world.read_entries()] == ["webhook.rotated"] * 4


@pytest.mark.parametrize("name", UNCHANGED)
async def test_what_changes_nothing_has_no_entry(world: World, name: str) -> None:
    await prepare(world, CHANGES[name])
    await CHANGES[name].make(world)
    await world.database.fetch("TRUNCATE audit_log")
    await UNCHANGED[name](world)
    assert await world.read_entries() == []


async def test_no_entry_has_a_secret(world: World) -> None:
    for name, change in CHANGES.items():
        if change.before is not None:
            await change.before(world)
        if name != "delete a webhook":
            await change.make(world)
    await world.delete_webhook()
    columns = "SELECT webhook_secret AS secret FROM tenants UNION SELECT key_hash FROM api_keys"
    stored = [record["secret"].hex() for record in await world.database.fetch(columns)]
    text = "\n".join(record["row"] for record in await world.database.fetch("SELECT a::text AS row FROM audit_log a"))
    assert {entry.action for entry in await world.read_entries()} == {*get_args(Action)}
    assert len(world.secrets) > 6
    assert [secret for secret in [*world.secrets, *stored] if secret in text] == []


async def test_two_commands_at_once_lose_no_change(world: World) -> None:
    """Each sets what it was given. The entries say so."""
    await asyncio.gather(
        world.limits("model", MODEL, "--max-running", "3"),
        world.limits("model", MODEL, "--max-running-per-tenant", "2"),
    )
    record = await world.database.fetch_one("SELECT max_running, max_running_per_tenant FROM model_limits")
    assert record is not None
    assert tuple(record) == (3, 2)
    changes = [entry.changes for entry in await world.read_entries()]
    assert sorted(changes, key=str) == [{"max_running": 3}, {"max_running_per_tenant": 2}]


async def test_entries_of_one_webhook_are_in_the_order_of_its_changes(world: World) -> None:
    """However the calls wait for each other."""
    await asyncio.gather(*(world.change_webhook(rate_limit=number) for number in range(10, 18)))
    entries: list[Entry] = await world.read_entries()
    record = await world.database.fetch_one("SELECT rate_limit FROM endpoints")
    assert record is not None
    assert entries[-1].changes == {"rate_limit": record["rate_limit"]}
    assert len(entries) == 8
