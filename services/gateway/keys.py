"""Makes API keys: `python -m services.gateway.keys create TENANT [--name NAME]` prints a new one, once."""

import argparse
import asyncio
import sys

import msgspec

from common import ids
from common.database import Database
from common.errors import CharoniaError
from common.sealing import Sealer
from common.settings import load
from services.gateway.auth import ensure_tenant, hash_key, new_key
from services.gateway.store import Store


class KeySettings(msgspec.Struct, frozen=True):
    database_url: str
    encryption_keys: tuple[str, ...]


async def create(settings: KeySettings, tenant: str, name: str) -> str:
    """A new key of a tenant, which is made where there is none of that name."""
    database = await Database.connect(settings.database_url, size=1, application="charonia-keys")
    try:
        store = Store(database)
        tenant_id = await ensure_tenant(store, Sealer(settings.encryption_keys), tenant)
        key = new_key()
        await store.add_key(ids.new(), tenant_id, name, hash_key(key))
        return key
    finally:
        await database.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m services.gateway.keys", description="Makes API keys.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    making = commands.add_parser("create", help="make a key, and its tenant where it is new; prints the key")
    making.add_argument("tenant", help="whose key it is")
    making.add_argument("--name", default="", help="what it is for")
    arguments = parser.parse_args()
    try:
        print(asyncio.run(create(load(KeySettings), arguments.tenant, arguments.name)))
    except CharoniaError as error:
        print(f"keys: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
