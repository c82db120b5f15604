"""Encryption of secrets in the database, with keys from the environment (Fernet: AES-128-CBC with HMAC-SHA256).

The first key encrypts, every key decrypts. To rotate keys, put a new one first. Keep the old one until no secret
needs it.
"""

from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from common.errors import SecretUnreadable, SettingsError


class Encryptor:
    """Encrypts and decrypts secrets."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Raise SettingsError for no key, or for one that is not 32 bytes in URL-safe base64."""
        try:
            self._fernet = MultiFernet([Fernet(key) for key in keys])
        except ValueError as error:
            reason = "expected one or more keys, each 32 bytes in URL-safe base64"
            raise SettingsError(f"CHARONIA_ENCRYPTION_KEYS is wrong: {reason}") from error

    def encrypt(self, secret: bytes) -> bytes:
        """Return the secret, encrypted with the first key."""
        return self._fernet.encrypt(secret)

    def decrypt(self, encrypted: bytes) -> bytes:
        """Return the secret. Raise SecretUnreadable if no key fits."""
        try:
            return self._fernet.decrypt(encrypted)
        except InvalidToken as error:
            raise SecretUnreadable from error
