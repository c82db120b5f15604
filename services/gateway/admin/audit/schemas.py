"""Response bodies of the audit log."""

import msgspec

from common.postgres.audit_log import Action
from common.views.job import Object, Time


class AuditEntryView(msgspec.Struct, frozen=True, kw_only=True):
    """One change."""

    id: str
    """The id of the entry."""
    at: Time
    """When the change was made."""
    actor: str
    """Who made it: the id of an API key, a command of the operators such as `keys revoke`, or a service."""
    action: Action
    """What was done."""
    target: str
    """The id of the tenant, key or webhook that was changed."""
    changes: Object
    """The new value of each changed field. Of headers it has the names, and of URLs no query."""


class AuditPage(msgspec.Struct, frozen=True):
    """A page of the audit log."""

    items: list[AuditEntryView]
    """The changes, newest first."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""
