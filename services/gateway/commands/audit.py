"""Print the audit log, newest entry first, as JSON lines: `python -m services.gateway.commands.audit [--tenant X]`.

It reads the gateway's settings. Changes to models concern every tenant, so their `tenant_id` is null.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import msgspec

from common import ids
from common.errors import CharoniaError
from common.postgres.database import Database
from common.settings import load
from services.gateway.admin.audit.routes import view
from services.gateway.admin.audit.store import NEWEST, AuditRow, AuditStore
from services.gateway.auth.store import KeyStore
from services.gateway.commands.keys import KeySettings, connect, read_name
from services.gateway.http.pagination import Cursor

PAGE = 200


async def print_log(settings: KeySettings, tenant: str | None) -> None:
    """Print the entries of one tenant, or all. Raises CharoniaError for an unknown tenant."""
    async with connect(settings) as database:
        tenant_id = await KeyStore(database).find_tenant(tenant) if tenant else None
        if tenant and tenant_id is None:
            raise CharoniaError(f"tenant '{tenant}' not found; `keys create` adds one")
        async for row in read_log(database, tenant_id):
            print(format_line(row))


async def read_log(database: Database, tenant_id: UUID | None) -> AsyncIterator[AuditRow]:
    """Yield entries, newest first."""
    store, cursor = AuditStore(database), NEWEST
    while rows := await read_page(store, tenant_id, cursor):
        for row in rows:
            yield row
        cursor = rows[-1].cursor


async def read_page(store: AuditStore, tenant_id: UUID | None, after: Cursor) -> Sequence[AuditRow]:
    return await (store.list_all(after, PAGE) if tenant_id is None else store.list(tenant_id, after, PAGE))


def format_line(row: AuditRow) -> str:
    """Return an entry as the API shows it, with its tenant."""
    tenant = None if row.tenant_id is None else ids.encode(ids.Kind.TENANT, row.tenant_id)
    return msgspec.json.encode({"tenant_id": tenant, **msgspec.structs.asdict(view(row))}).decode()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    description = "Print the audit log, newest entry first, as JSON lines."
    parser = argparse.ArgumentParser(prog="python -m services.gateway.commands.audit", description=description)
    parser.add_argument("--tenant", type=read_name, help="print only the entries of this tenant")
    return parser.parse_args(arguments)


def main() -> int:
    """Return the exit code: 0 on success, 2 for wrong arguments or settings, else that of the error."""
    arguments = parse()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `| head` ends it quietly
    try:
        asyncio.run(print_log(load(KeySettings), arguments.tenant))
    except CharoniaError as error:
        print(f"audit: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
