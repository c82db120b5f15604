"""Idempotency keys: for a day, a repeated request gets the response of the first one.

Nothing that happened to the job, its model or the limits in between changes that response.
"""

import hashlib
import re
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from litestar.params import HeaderParameter

from common.postgres.batcher import Batcher
from services.gateway.http.problems import FieldError, Problem, invalid
from services.gateway.jobs.idempotency.store import IdempotencyStore, KeyRecord, RequestKey, TenantKey

IDEMPOTENCY_KEY = "Idempotency-Key"
KEY_PATTERN = re.compile(r"[\x21-\x7e]{1,255}")
SOON = {"Retry-After": "1"}  # a submit takes less
IN_PROGRESS = f"`request_in_progress`: the first request with this `{IDEMPOTENCY_KEY}` is under way"
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name=IDEMPOTENCY_KEY,
        schema_extra={"pattern": r"^[\x21-\x7e]{1,255}$"},
        description="1 to 255 visible ASCII characters of yours. For 24 h, the same key with the same bytes of the "
        "body gets the answer to the first request. Another request gets 422 `idempotency_key_reused`. Jobs and "
        "batches share the keys.",
    ),
]


class IdempotencyKeys:
    """Looks up what the keys of repeated requests belong to."""

    def __init__(self, store: IdempotencyStore) -> None:
        self.store = store
        self._lookups: Batcher[TenantKey, KeyRecord | None] = Batcher(self._find_many, name="idempotency keys")

    async def find(self, tenant_id: UUID, key: str) -> KeyRecord | None:
        """Return the record of a key that is in use. Concurrent calls share one statement."""
        return await self._lookups.submit((tenant_id, key))

    async def _find_many(self, keys: list[TenantKey]) -> list[KeyRecord | None]:
        found = await self.store.find_records(keys)
        return [found.get(key) for key in keys]


def parse_key(text: str | None) -> str | None:
    """Return the value of an Idempotency-Key header. Raises Problem (422) for an invalid one."""
    if text is not None and not KEY_PATTERN.fullmatch(text):
        raise invalid(FieldError(IDEMPOTENCY_KEY, "must be 1 to 255 visible ASCII characters"))
    return text


def parse_request_key(header: str | None, body: bytes) -> RequestKey | None:
    """Return the key and fingerprint of a request, or None without a key. Raises Problem (422) for an invalid one."""
    key = parse_key(header)
    return None if key is None else RequestKey(key, hashlib.sha256(body).digest())


def check_same_request(first: KeyRecord, fingerprint: bytes, *, is_batch: bool) -> None:
    """Raises Problem (422) if the key belongs to another body or another kind of call."""
    if first.fingerprint != fingerprint or first.is_batch != is_batch:
        text = "was used for another request within 24 h; use a new key, or send the same request"
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "idempotency_key_reused",
            f"{IDEMPOTENCY_KEY}: {text}",
            errors=[FieldError(IDEMPOTENCY_KEY, text)],
        )


def in_progress() -> Problem:
    text = f"another request with this {IDEMPOTENCY_KEY} is in progress; repeat the request soon"
    return Problem(HTTPStatus.CONFLICT, "request_in_progress", text, headers=SOON)
