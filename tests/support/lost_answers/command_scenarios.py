"""Scenarios of operators: their commands, called in this process."""

import contextlib
from datetime import timedelta
from typing import Any
from uuid import uuid4

from common.errors import CharoniaError
from common.object_store.store import ObjectStore
from common.postgres.database import Database
from common.security.encryption import Encryptor
from services.gateway.commands import audit, keys
from services.gateway.commands.check_files.check import FileCheck, Finding, Seen
from services.gateway.commands.check_files.store import FileCheckStore
from services.gateway.commands.limits import __main__ as limits
from services.gateway.commands.locations import __main__ as locations
from services.gateway.commands.reencrypt.__main__ import reencrypt
from services.gateway.commands.reencrypt.store import SecretStore
from tests.support.lost_answers.world import World, repeat


async def run_commands(world: World) -> None:
    environment = world.stack.environment
    settings = locations.LocationSettings(
        database_url=world.proxied_url,
        encryption_keys=(environment["CHARONIA_ENCRYPTION_KEYS"],),
        amqp_url=environment["CHARONIA_AMQP_URL"],
    )

    async def run(command: Any, *arguments: str) -> str:
        parsed = command.parse(arguments)
        return str(await repeat(lambda: parsed.run(settings, parsed)))

    name = f"commands-{uuid4().hex[:8]}"
    for _ in range(2):
        await run(keys, "create", name, "--name", "one")
    key = next(line.split()[0] for line in (await run(keys, "list", name)).splitlines()[1:])
    await run(keys, "list")
    for limit in ("5", "default"):
        await run(keys, "tenant", name, "--max-queued", limit)
    for _ in range(2):
        with contextlib.suppress(CharoniaError):
            await run(keys, "revoke", key)
    model = f"model-{name}"
    for limit in ("3", "none"):
        await run(limits, "model", model, "--max-running", limit)
    for change in ("--pause", "--resume"):
        await run(limits, "model", model, change)
        await run(limits, "tenant", name, change)
    for retention in ("100", "none"):
        await run(limits, "tenant", name, "--retention", retention)
    await run(locations, "allow", name, "s3://tenants/x/", "--read")
    await run(locations, "list", name)
    with contextlib.suppress(CharoniaError):  # not found: the answer of the first call was lost
        await run(locations, "revoke", name, "s3://tenants/x/")
    async with world.database() as database:
        assert await repeat(lambda: read_log(database))


async def read_log(database: Database) -> list[object]:
    return [row async for row in audit.read_log(database, None)]


async def encrypt_again(world: World) -> None:
    body = {"url": world.inbox().url, "events": ["job.expired"], "headers": {"x-a": "b"}}
    made = (await world.other.call("POST", "/v1/webhooks", 201, json=body)).json()
    await world.other.call("POST", f"/v1/webhooks/{made['id']}/rotate", 200, json={"grace_period": 600})
    encryptor = Encryptor((world.stack.environment["CHARONIA_ENCRYPTION_KEYS"],))
    async with world.database() as database:
        assert await repeat(lambda: reencrypt(SecretStore(database), encryptor)) > 0


async def check_files(world: World) -> None:
    """A file whose object is missing."""
    await world.own.execute(
        "INSERT INTO files (id, tenant_id, status, content_type, size, sha256, kept, created_at, expires_at) VALUES "
        "($1, $2, 'ready', 'text/plain', 1, '\\x00', 600, now() - interval '2 hours', now() + interval '600 s')",
        uuid4(),
        world.removed_id,
    )
    await world.removed.call("POST", "/v1/files", 201, content=b"known")
    objects = ObjectStore(world.stack.environment["CHARONIA_STORE_URL"])
    async with world.database() as database:
        check = FileCheck(FileCheckStore(database), objects, timedelta(hours=1), timedelta(hours=1))
        while pages := await repeat(lambda: find(check)):
            await repeat(lambda: check.mend(pages))
    objects.close()


async def find(check: FileCheck) -> list[Finding]:
    return [finding async for page in check.find(Seen()) for finding in page]


SCENARIOS = (run_commands, encrypt_again, check_files)
