"""Manage API keys and tenants: `python -m services.gateway.commands.keys create | list | revoke | tenant`.

It reads the gateway's settings. A revocation takes effect at once on every gateway that the broker reaches, and within
5 seconds on the others. A change to a queue limit takes effect after about a second.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import msgspec

from common import ids
from common.errors import CharoniaError
from common.postgres.database import Database
from common.security.encryption import Encryptor
from common.settings import AmqpUrl, DatabaseUrl, load
from common.views.job import format_optional_time, format_time
from services.gateway.auth.authentication import CACHED_SECONDS, ensure_tenant, hash_key, new_key
from services.gateway.auth.rate_limits import MAX_RATE
from services.gateway.auth.scopes import USUAL, Scope
from services.gateway.auth.store import KeyRow, KeyStore
from services.gateway.commands.revocation import announce_revocation
from services.gateway.jobs.queue_limits.limits import MAX_LIMIT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DEFAULT = "default"
MAX_PATTERN = 255


class KeySettings(msgspec.Struct, frozen=True):
    database_url: DatabaseUrl
    encryption_keys: tuple[str, ...]
    amqp_url: AmqpUrl | None = None


@asynccontextmanager
async def connect(settings: KeySettings) -> "AsyncIterator[Database]":
    database = await Database.connect(settings.database_url, size=1, application="charonia-keys")
    try:
        yield database
    finally:
        await database.close()


async def create(settings: KeySettings, arguments: argparse.Namespace) -> str:
    """Create a key, and its tenant if that is new; return the key. What it may do is printed for people."""
    async with connect(settings) as database:
        store, key = KeyStore(database), new_key()
        encryptor, actor = Encryptor(settings.encryption_keys), "keys create"
        tenant_id = await ensure_tenant(store, encryptor, arguments.tenant, actor=actor)
        scopes = frozenset(map(Scope, arguments.scope or USUAL))
        own = arguments.name or "", hash_key(key), scopes, arguments.rate_limit, arguments.model, arguments.expires_at
        await store.add_key(ids.new(), tenant_id, *own, actor=actor)
    print(describe(arguments.tenant, scopes, arguments.model), file=sys.stderr)
    return key


def describe(tenant: str, scopes: Collection[Scope], models: Sequence[str] | None) -> str:
    """Return what a new key may do. Standard output has the key alone."""
    which = f"the models {', '.join(models)}" if models else "every model"
    return f"A key of {tenant} for {which}, with the scopes {', '.join(sorted(scopes))}. It is shown only now:"


async def list_keys(settings: KeySettings, arguments: argparse.Namespace) -> str:
    """Return a table of the keys, or JSON, without their secrets. Raises CharoniaError for an unknown tenant."""
    async with connect(settings) as database:
        tenant_id = await find_tenant(KeyStore(database), arguments.tenant) if arguments.tenant else None
        rows = [view(row) for row in await KeyStore(database).list_keys(tenant_id)]
    return json.dumps(rows, indent=2) if arguments.json else tabulate(rows)


async def revoke(settings: KeySettings, arguments: argparse.Namespace) -> str:
    """Revoke a key, and clear the caches of the gateways. Raises CharoniaError for an unknown key."""
    async with connect(settings) as database:
        shown = ids.encode(ids.Kind.KEY, arguments.key)
        if not await KeyStore(database).revoke(arguments.key, actor="keys revoke"):
            raise CharoniaError(f"key '{shown}' not found; `list` shows the keys")
    if await announce_revocation(settings.amqp_url):
        return f"Revoked {shown}."
    return (
        f"Revoked {shown}. The broker cannot be reached: gateways may accept the key for {CACHED_SECONDS:.0f} s more."
    )


async def set_limit(settings: KeySettings, arguments: argparse.Namespace) -> str:
    """Set a tenant's queue limit, if one is given, and return the limit."""
    async with connect(settings) as database:
        tenant_id = await find_tenant(KeyStore(database), arguments.tenant)
        store = KeyStore(database)
        if arguments.max_queued is not None:
            limit = None if arguments.max_queued == DEFAULT else arguments.max_queued
            await store.set_max_queued(tenant_id, limit, actor="keys tenant")
        limit = await store.find_max_queued(tenant_id)
    return f"{arguments.tenant}: max queued {'default of the gateways' if limit is None else limit}"


async def find_tenant(store: KeyStore, name: str) -> UUID:
    found = await store.find_tenant(name)
    if found is None:
        raise CharoniaError(f"tenant '{name}' not found; `create` adds one")
    return found


def view(row: KeyRow) -> dict[str, Any]:
    return {
        "id": ids.encode(ids.Kind.KEY, row.id),
        "tenant": row.tenant,
        "name": row.name,
        "scopes": sorted(row.scopes),
        "models": row.models,
        "rate_limit": row.rate_limit,
        "created_at": format_time(row.created_at),
        "expires_at": format_optional_time(row.expires_at),
        "last_used_at": format_optional_time(row.last_used_at),
        "revoked_at": format_optional_time(row.revoked_at),
        "made_by": None if row.made_by is None else ids.encode(ids.Kind.KEY, row.made_by),
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


def read_pattern(text: str) -> str:
    if not 1 <= len(text) <= MAX_PATTERN or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to {MAX_PATTERN} printable characters")
    if "," in text:
        several = " ".join(filter(None, text.split(",")))
        raise argparse.ArgumentTypeError(f"{text!r} has a comma; put spaces between patterns: {several}")
    return text


def read_key(text: str) -> UUID:
    found = ids.parse(ids.Kind.KEY, text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not the id of a key; `list` shows the ids")
    return found


def read_count(largest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= largest):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {largest}")
        return int(text)

    return read


def read_expiry(text: str) -> datetime:
    try:
        found: datetime = msgspec.convert(text, Annotated[datetime, msgspec.Meta(tz=True)])
    except msgspec.ValidationError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an RFC 3339 time such as 2027-01-01T00:00:00Z") from None
    if found <= datetime.now(UTC):
        raise argparse.ArgumentTypeError(f"{text!r} is in the past; give a later time")
    return found


def read_limit(text: str) -> int | str:
    return text if text == DEFAULT else read_count(MAX_LIMIT)(text)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    description = "Manage API keys and tenants."
    parser = argparse.ArgumentParser(prog="python -m services.gateway.commands.keys", description=description)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_create(commands.add_parser("create", help="create a key, and its tenant if that is new; print the key once"))
    listing = commands.add_parser("list", help="list keys (secrets are not shown)")
    listing.add_argument("tenant", type=read_name, nargs="?", help="list only the keys of this tenant")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=list_keys)
    revoking = commands.add_parser("revoke", help="revoke a key on every gateway, at once")
    revoking.add_argument("key", type=read_key, metavar="KEY_ID", help="id of the key, as `list` shows it")
    revoking.set_defaults(run=revoke)
    limiting = commands.add_parser("tenant", help="show or set the queue limit of a tenant")
    limiting.add_argument("tenant", type=read_name, help="name of the tenant")
    limit_help = f"most jobs that may wait, or '{DEFAULT}' for the gateway's setting"
    limiting.add_argument("--max-queued", type=read_limit, metavar="N", help=limit_help)
    limiting.set_defaults(run=set_limit)
    return parser.parse_args(arguments)


def add_create(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `create`."""
    scopes = [scope.value for scope in Scope]
    rate_help = "requests a second; 0: no limit; default: the gateway's setting"
    parser.add_argument("tenant", type=read_name, help="name of the tenant that owns the key")
    parser.add_argument("--name", type=read_name, help="what the key is for")
    parser.add_argument(
        "--scope", nargs="+", action="extend", choices=scopes, help="what the key may do; default: submit and read"
    )
    model_help = "which models the key may run: names, or patterns such as 'ocr*'; default: every model"
    parser.add_argument("--model", nargs="+", action="extend", type=read_pattern, metavar="PATTERN", help=model_help)
    parser.add_argument("--rate-limit", type=read_count(MAX_RATE), metavar="N", help=rate_help)
    expiry_help = "RFC 3339 time from which the key is refused; default: never"
    parser.add_argument("--expires-at", type=read_expiry, metavar="TIME", help=expiry_help)
    parser.set_defaults(run=create)


def main() -> int:
    """Return the exit code: 0 on success, 2 for wrong arguments or settings, else that of the error."""
    arguments = parse()
    try:
        print(asyncio.run(arguments.run(load(KeySettings), arguments)))
    except CharoniaError as error:
        print(f"keys: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
