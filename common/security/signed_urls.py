"""Signed URLs, which fetch one job's outputs or one file for a limited time without an API key. Pure.

A webhook whose outputs are too large carries such a URL instead. So does the request to a model that takes references.
"""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from common import ids
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

    def sign(self, owner: UUID, at: datetime, lifetime: timedelta = VALID, job: UUID | None = None) -> str:
        """Return the query of a URL of a job or file that is valid for `lifetime` after `at`.

        With `job`, the URL of a file is good only as long as that job shows it: several jobs may share the file.
        """
        expires = int((at + lifetime).timestamp())
        signature = f"signature={_sign(self._keys[0], owner, expires, job)}"
        shown = "" if job is None else f"job={ids.encode(ids.Kind.JOB, job)}&"
        return f"expires={expires}&{shown}{signature}"

    def is_valid(self, owner: UUID, expires: int, signature: str, job: UUID | None = None) -> bool:
        """Return whether we signed the query. The caller checks the time, and the job."""
        given = signature.encode()
        return any(hmac.compare_digest(_sign(key, owner, expires, job).encode(), given) for key in self._keys)


def _sign(key: bytes, owner: UUID, expires: int, job: UUID | None) -> str:
    shown = "" if job is None else f".{job}"
    return hmac.new(key, f"{owner}{shown}.{expires}".encode(), hashlib.sha256).hexdigest()
