"""Re-encrypt every secret with the first encryption key: `python -m services.gateway.commands.reencrypt`.

To replace a key, put the new key first everywhere and restart. Then run this command, and remove the old key.
"""

import argparse
import asyncio
import sys
from typing import get_args
from uuid import UUID

from common.errors import CharoniaError, SecretUnreadable, SettingsError
from common.postgres.database import Database
from common.security.encryption import Encryptor
from common.settings import load
from services.gateway.commands.keys import KeySettings
from services.gateway.commands.reencrypt.store import SecretKind, SecretStore

PAGE = 200
FIRST = UUID(int=0)


async def reencrypt(store: SecretStore, encryptor: Encryptor) -> int:
    """Re-encrypt every secret, and return their number. Services may run meanwhile.

    Raises SettingsError for a secret that no key decrypts.
    """
    count = 0
    for kind in get_args(SecretKind):
        after = FIRST
        while page := await store.list_secrets(kind, after, PAGE):
            after = page[-1].id
            for secret in page:
                try:
                    ciphertext = encryptor.encrypt(encryptor.decrypt(secret.ciphertext))
                except SecretUnreadable as error:
                    text = f"CHARONIA_ENCRYPTION_KEYS is wrong: no key decrypts one of the {kind.replace('_', ' ')}"
                    raise SettingsError(text) from error
                await store.replace(kind, secret, ciphertext)
                count += 1
    return count


async def run(settings: KeySettings) -> int:
    database = await Database.connect(settings.database_url, size=1, application="charonia-reencrypt")
    try:
        return await reencrypt(SecretStore(database), Encryptor(settings.encryption_keys))
    finally:
        await database.close()


def main() -> int:
    """Return the exit code: 0 on success, else that of the error."""
    try:
        count = asyncio.run(run(load(KeySettings)))
    except CharoniaError as error:
        print(f"reencrypt: {error}", file=sys.stderr)
        return error.exit_code
    print(f"Encrypted {count} secrets with the first key.")
    return 0


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m services.gateway.commands.reencrypt", description=__doc__).parse_args()
    sys.exit(main())
