"""Signed URLs: leave to fetch one job's outputs for a while, without a key. Pure.

A webhook that is too large for its outputs carries such a URL instead; whoever may read the webhook may read them.
"""

import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

VALID = timedelta(days=7)  # longer than a webhook is retried
PURPOSE = b"charonia: URLs of outputs"


class Grants:
    def __init__(self, keys: Sequence[str]) -> None:
        """The encryption keys: the first signs, all verify."""
        self.keys = [hmac.digest(key.encode(), PURPOSE, hashlib.sha256) for key in keys]

    def sign(self, job_id: UUID, at: datetime) -> str:
        """The query that grants it, until VALID after `at`."""
        expires = int((at + VALID).timestamp())
        return f"expires={expires}&signature={seal(self.keys[0], job_id, expires)}"

    def is_genuine(self, job_id: UUID, expires: int, signature: str) -> bool:
        """Whether we signed it; the caller looks at the time."""
        given = signature.encode()
        return any(hmac.compare_digest(seal(key, job_id, expires).encode(), given) for key in self.keys)


def seal(key: bytes, job_id: UUID, expires: int) -> str:
    return hmac.new(key, f"{job_id}.{expires}".encode(), hashlib.sha256).hexdigest()
