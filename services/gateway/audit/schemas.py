"""Response bodies of the audit log."""

import msgspec

from common.postgres.audit_log import Action
from common.views.job import Object, Time


class AuditEntryView(msgspec.Struct, frozen=True, kw_only=True):
    """One change: who changed what, and when."""

    id: str
    at: Time
    actor: str
    action: Action
    target: str
    changes: Object


class AuditPage(msgspec.Struct, frozen=True):
    items: list[AuditEntryView]
    next_cursor: str | None
