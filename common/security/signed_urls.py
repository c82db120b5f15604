"""Signed URLs, which fetch one job's outputs or one file for a limited time without an API key. Pure.

A webhook whose outputs are too large carries such a URL instead. So does the request to a model that takes references.
"""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from common.errors import SettingsError

VALID = timedelta(days=7)  # longer than the retries of a webhook
MIN_KEY = 32  # characters


class UrlSigner:
    """Signs and verifies URLs."""

    def __init__(self, keys: Sequence[str]) -> None:
        """The first key signs, all of them verify. Raise SettingsError for no key, or for a short one."""
        if not keys or any(len(key) < MIN_KEY for key in keys):
            reason = f"expected one or more keys, each at least {MIN_KEY} characters"
            raise SettingsError(f"CHARONIA_URL_KEYS is wrong: {reason}")
        self._keys = [key.encode() for key in keys]

    def sign(self, owner: UUID, at: datetime, lifetime: timedelta = VALID) -> str:
        """Return the query of a URL of a job or file that is valid for `lifetime` after `at`."""
        expires = int((at + lifetime).timestamp())
        return f"expires={expires}&signature={_sign(self._keys[0], owner, expires)}"

    def is_valid(self, owner: UUID, expires: int, signature: str) -> bool:
        """Return whether we signed the query. The caller checks the time."""
        given = signature.encode()
        return any(hmac.compare_digest(_sign(key, owner, expires).encode(), given) for key in self._keys)


def _sign(key: bytes, owner: UUID, expires: int) -> str:
    return hmac.new(key, f"{owner}.{expires}".encode(), hashlib.sha256).hexdigest()
