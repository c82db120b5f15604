"""Let tenants use buckets: `python -m services.gateway.commands.locations allow | list | revoke`.

It reads the gateway's settings. A change holds for the next submit and the next attempt.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from common.errors import CharoniaError
from common.locations.location import InvalidLocation, Location, is_all_within, parse_prefix
from common.settings import StoreUrl, load
from services.gateway.auth.store import KeyStore
from services.gateway.commands.keys import KeySettings, connect, find_tenant, read_name
from services.gateway.commands.locations.store import LocationStore, TenantLocation


class LocationSettings(KeySettings, frozen=True):
    store_url: StoreUrl | None = None


async def allow(settings: LocationSettings, arguments: argparse.Namespace) -> str:
    """Let a tenant read or write below a location. Raises CharoniaError for an unknown tenant, or Charonia's store."""
    if settings.store_url and is_all_within(arguments.location, settings.store_url):
        raise CharoniaError(
            f"{arguments.location} is Charonia's own store (CHARONIA_STORE_URL), which no tenant may use; "
            "allow another bucket or folder"
        )
    read, write = arguments.read or not arguments.write, arguments.write
    async with connect(settings) as database:
        tenant_id = await find_tenant(KeyStore(database), arguments.tenant)
        await LocationStore(database).allow(tenant_id, arguments.location, read=read, write=write)
    return show(TenantLocation(arguments.tenant, arguments.location, read, write))


async def revoke(settings: KeySettings, arguments: argparse.Namespace) -> str:
    """Take a location from a tenant. Raises CharoniaError for one that it does not have."""
    async with connect(settings) as database:
        tenant_id = await find_tenant(KeyStore(database), arguments.tenant)
        if not await LocationStore(database).revoke(tenant_id, arguments.location):
            raise CharoniaError(
                f"tenant '{arguments.tenant}' may not use {arguments.location}; `list` shows what it may"
            )
    return f"{arguments.tenant}: {arguments.location} is no longer allowed"


async def list_locations(settings: KeySettings, arguments: argparse.Namespace) -> str:
    """Return a line for each location. Raises CharoniaError for an unknown tenant."""
    async with connect(settings) as database:
        tenant_id = await find_tenant(KeyStore(database), arguments.tenant) if arguments.tenant else None
        found = await LocationStore(database).list(tenant_id)
    return "\n".join(map(show, found)) or "no locations are allowed"


def show(found: TenantLocation) -> str:
    uses = " and ".join([*(["read"] if found.can_read else []), *(["write"] if found.can_write else [])])
    return f"{found.tenant}: {found.location} ({uses})"


def read_location(text: str) -> Location:
    try:
        return parse_prefix(text)
    except InvalidLocation as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be used: {error}") from None


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    description = "Let tenants read inputs from buckets, and write outputs to them."
    parser = argparse.ArgumentParser(prog="python -m services.gateway.commands.locations", description=description)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("allow", allow, "let a tenant use a bucket below a prefix"),
        ("revoke", revoke, "take a location from a tenant"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("tenant", type=read_name, help="name of the tenant")
        command.add_argument("location", type=read_location, help="a bucket and a folder in it: s3://bucket/folder/")
        command.set_defaults(run=run)
        if run is allow:
            command.add_argument("--read", action="store_true", help="inputs may come from there (the default)")
            command.add_argument("--write", action="store_true", help="outputs may go there")
    listing = commands.add_parser("list", help="list what tenants may use")
    listing.add_argument("tenant", type=read_name, nargs="?", help="name of a tenant, if only its locations")
    listing.set_defaults(run=list_locations)
    return parser.parse_args(arguments)


def main() -> int:
    """Return the exit code: 0 on success, 2 for wrong arguments or settings, else that of the error."""
    arguments = parse()
    try:
        print(asyncio.run(arguments.run(load(LocationSettings), arguments)))
    except CharoniaError as error:
        print(f"locations: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
