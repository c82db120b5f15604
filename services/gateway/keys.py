"""API keys and tenants: `python -m services.gateway.keys create | list | revoke | tenant`, with the gateway's settings.

Gateways trust no key that they only remember, so whatever is done to one holds from the next request on, on every
instance; they count queues about once a second.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from common import ids
from common.database import Database
from common.errors import CharoniaError, SettingsError
from common.job_view import show_optional, show_time
from common.sealing import Sealer
from common.settings import DatabaseUrl, load
from services.gateway.auth import ensure_tenant, hash_key, new_key
from services.gateway.key_store import KeyRow, KeyStore
from services.gateway.queues import MAX_LIMIT
from services.gateway.rates import MAX_RATE
from services.gateway.scopes import ALL, Scope
from services.gateway.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DEFAULT = "default"


class KeySettings(msgspec.Struct, frozen=True):
    database_url: DatabaseUrl
    encryption_keys: tuple[str, ...]


@asynccontextmanager
async def connect(settings: KeySettings) -> "AsyncIterator[Database]":
    database = await Database.connect(settings.database_url, size=1, application="charonia-keys")
    try:
        yield database
    finally:
        await database.close()


async def create(settings: KeySettings, wanted: argparse.Namespace) -> str:
    """A new key of a tenant, which is made where there is none of that name."""
    async with connect(settings) as database:
        store, key = Store(database), new_key()
        tenant_id = await ensure_tenant(store, Sealer(settings.encryption_keys), wanted.tenant)
        scopes = frozenset(map(Scope, wanted.scope or ALL))
        await store.add_key(ids.new(), tenant_id, wanted.name or "", hash_key(key), scopes, wanted.rate_limit)
        return key


async def show(settings: KeySettings, wanted: argparse.Namespace) -> str:
    """A line for each key, or JSON; never a key itself. Raises CharoniaError for an unknown tenant."""
    async with connect(settings) as database:
        tenant_id = await find_tenant(Store(database), wanted.tenant) if wanted.tenant else None
        rows = [view(row) for row in await KeyStore(database).list(tenant_id)]
    return json.dumps(rows, indent=2) if wanted.json else tabulate(rows)


async def revoke(settings: KeySettings, wanted: argparse.Namespace) -> str:
    async with connect(settings) as database:
        shown = ids.show(ids.Kind.KEY, wanted.key)
        if not await KeyStore(database).revoke(wanted.key):
            raise CharoniaError(f"there is no key '{shown}'")
        return f"{shown} is revoked."


async def limit(settings: KeySettings, wanted: argparse.Namespace) -> str:
    """Sets how many jobs of a tenant may wait, where that is wanted, and tells it."""
    async with connect(settings) as database:
        tenant_id = await find_tenant(Store(database), wanted.tenant)
        store = KeyStore(database)
        if wanted.max_queued is not None:
            await store.set_max_queued(tenant_id, None if wanted.max_queued == DEFAULT else wanted.max_queued)
        most = await store.find_max_queued(tenant_id)
    return f"{wanted.tenant}: max queued {'as the gateways are set' if most is None else most}"


async def find_tenant(store: Store, name: str) -> UUID:
    found = await store.find_tenant(name)
    if found is None:
        raise CharoniaError(f"there is no tenant '{name}'")
    return found


def view(row: KeyRow) -> dict[str, Any]:
    return {
        "id": ids.show(ids.Kind.KEY, row.id),
        "tenant": row.tenant,
        "name": row.name,
        "scopes": sorted(row.scopes),
        "rate_limit": row.rate_limit,
        "created_at": show_time(row.created_at),
        "last_used_at": show_optional(row.last_used_at),
        "revoked_at": show_optional(row.revoked_at),
    }


def tabulate(rows: Sequence[dict[str, Any]]) -> str:
    names = KeyRow.__struct_fields__
    lines = [[name.upper().replace("_", " ") for name in names]]
    lines += [[write(row[name]) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def write(value: object) -> str:
    return "-" if value in (None, "") else ",".join(value) if isinstance(value, list) else str(value)


def read_name(text: str) -> str:
    if not 1 <= len(text) <= 100 or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to 100 printable characters")
    return text


def read_key(text: str) -> UUID:
    found = ids.parse(ids.Kind.KEY, text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not the id of a key; `list` shows them")
    return found


def read_count(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {most}")
        return int(text)

    return read


def read_limit(text: str) -> int | str:
    return text if text == DEFAULT else read_count(MAX_LIMIT)(text)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services.gateway.keys", description="API keys.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    making = commands.add_parser("create", help="make a key, and its tenant where it is new; prints the key, once")
    making.add_argument("tenant", type=read_name, help="whose key it is")
    making.add_argument("--name", type=read_name, help="what it is for")
    making.add_argument(
        "--scope",
        nargs="+",
        action="extend",
        choices=[scope.value for scope in Scope],
        help="what it may do; default: all",
    )
    making.add_argument(
        "--rate-limit",
        type=read_count(MAX_RATE),
        metavar="N",
        help="requests a second; 0: any number; default: the gateway's setting",
    )
    making.set_defaults(run=create)
    listing = commands.add_parser("list", help="show keys, but for the keys themselves")
    listing.add_argument("tenant", type=read_name, nargs="?", help="only this one's")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(run=show)
    revoking = commands.add_parser("revoke", help="refuse a key from now on, on every gateway")
    revoking.add_argument("key", type=read_key, metavar="KEY_ID", help="as `list` shows it")
    revoking.set_defaults(run=revoke)
    limiting = commands.add_parser("tenant", help="show, or set, how many jobs of a tenant may wait")
    limiting.add_argument("tenant", type=read_name)
    limiting.add_argument(
        "--max-queued", type=read_limit, metavar="N", help=f"jobs, or '{DEFAULT}' for the gateways' setting"
    )
    limiting.set_defaults(run=limit)
    return parser.parse_args(arguments)


def main() -> int:
    """0 done, 1 not done, 2 wrong arguments or settings."""
    wanted = parse()
    try:
        print(asyncio.run(wanted.run(load(KeySettings), wanted)))
    except SettingsError as error:
        print(f"keys: {error}", file=sys.stderr)
        return 2
    except CharoniaError as error:
        print(f"keys: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
