"""Requests that come again: what was accepted under an Idempotency-Key is answered as it was then, for a day,
whatever has become of it, of its model and of all limits."""

import hashlib
import re
from uuid import UUID

from common.batching import Batcher
from services.gateway.errors import FieldError, Problem, conflict, invalid
from services.gateway.idempotency_store import IdempotencyStore, Label, Name, Named

IDEMPOTENCY_KEY = "Idempotency-Key"
KEY = re.compile(r"[\x21-\x7e]{1,255}")


class Repeats:
    def __init__(self, store: IdempotencyStore) -> None:
        self.store = store
        self.lookups: Batcher[Name, Named | None] = Batcher(self.look, name="idempotency keys")

    async def find(self, tenant_id: UUID, key: str) -> Named | None:
        """What the key stands for already."""
        return await self.lookups.submit((tenant_id, key))

    async def look(self, names: list[Name]) -> list[Named | None]:
        found = await self.store.find_named(names)
        return [found.get(name) for name in names]


def read_key(text: str | None) -> str | None:
    """An Idempotency-Key header; raises Problem (422) for what can't be one."""
    if text is not None and not KEY.fullmatch(text):
        raise invalid(FieldError(IDEMPOTENCY_KEY, "is not 1 to 255 visible ASCII characters"))
    return text


def read_label(header: str | None, body: bytes) -> Label | None:
    """None for a request without a key; raises Problem (422) for a bad one."""
    key = read_key(header)
    return None if key is None else Label(key, hashlib.sha256(body).digest())


def check_repeat(first: Named, fingerprint: bytes, *, is_batch: bool) -> None:
    """Raises Problem (422) where the key stands for another body, or for what another call made."""
    if first.fingerprint != fingerprint or first.is_batch != is_batch:
        raise invalid(FieldError(IDEMPOTENCY_KEY, "this key was used within a day for another request"))


def in_progress() -> Problem:
    return conflict(f"another request under this {IDEMPOTENCY_KEY} is still in progress")
