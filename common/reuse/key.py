"""The name of a question of a tenant."""

from typing import NamedTuple
from uuid import UUID


class ReuseKey(NamedTuple):
    """A key of a tenant: common/reuse/digest.py."""

    tenant_id: UUID
    key: bytes


FIRST = ReuseKey(UUID(int=0), b"")  # before all others
