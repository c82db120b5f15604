"""Secrets at rest: encrypted with keys from the environment (Fernet: AES-128-CBC with HMAC-SHA256).

The first key seals, every key opens: to rotate, put a new key first and keep the old one until nothing needs it.
"""

from collections.abc import Sequence

from cryptography.fernet import Fernet, MultiFernet

from common.errors import SettingsError


class Sealer:
    def __init__(self, keys: Sequence[str]) -> None:
        """Raises SettingsError for no key, or one that is not 32 bytes in URL-safe base64."""
        try:
            self.fernet = MultiFernet([Fernet(key) for key in keys])
        except ValueError as error:
            reason = "each key is 32 bytes in URL-safe base64"
            raise SettingsError(f"CHARONIA_ENCRYPTION_KEYS is wrong: {reason}") from error

    def seal(self, secret: bytes) -> bytes:
        return self.fernet.encrypt(secret)

    def open(self, sealed: bytes) -> bytes:
        """Raises cryptography's InvalidToken where no key fits."""
        return self.fernet.decrypt(sealed)
