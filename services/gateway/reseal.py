"""Seals every secret anew with the first of the encryption keys: `python -m services.gateway.reseal`.

To replace a key: put the new one first everywhere, restart, run this, and take the old one away.
"""

import asyncio
import sys
from uuid import UUID

from cryptography.fernet import InvalidToken

from common import sql
from common.database import Database
from common.errors import CharoniaError, SettingsError
from common.sealing import Sealer
from common.settings import load
from services.gateway.keys import KeySettings

QUERIES = sql.load("services.gateway", "reseal.sql")
PAGE = 200
FIRST = UUID(int=0)
WHAT = ("tenant_secrets", "webhook_secrets", "webhook_headers", "old_secrets")


async def reseal(database: Database, sealer: Sealer) -> int:
    """How many were sealed anew; raises SettingsError for one that no key opens. Services may run meanwhile."""
    count = 0
    for what in WHAT:
        after = FIRST
        while page := await database.fetch(QUERIES[f"list_{what}"], after, PAGE):
            after = page[-1]["id"]
            for row in page:
                try:
                    fresh = sealer.seal(sealer.open(row["sealed"]))
                except InvalidToken as error:
                    text = f"CHARONIA_ENCRYPTION_KEYS is wrong: no key opens one of the {what.replace('_', ' ')}"
                    raise SettingsError(text) from error
                await database.fetch(QUERIES[f"set_{what}"], row["id"], row["sealed"], fresh)
                count += 1
    return count


async def run(settings: KeySettings) -> int:
    database = await Database.connect(settings.database_url, size=1, application="charonia-reseal")
    try:
        return await reseal(database, Sealer(settings.encryption_keys))
    finally:
        await database.close()


def main() -> int:
    try:
        count = asyncio.run(run(load(KeySettings)))
    except CharoniaError as error:
        print(f"reseal: {error}", file=sys.stderr)
        return 1
    print(f"{count} secrets are sealed with the first key.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
