"""Response bodies of the audit log."""

from typing import Annotated, get_args

import msgspec
from msgspec import Meta

from common.postgres.audit_log import TenantAction
from common.views.job import Object, Time

ShownAction = Annotated[str, Meta(extra_json_schema={"enum": sorted(get_args(TenantAction))})]


class AuditEntryView(msgspec.Struct, frozen=True, kw_only=True):
    """One change."""

    id: str
    """The id of the entry."""
    at: Time
    """When the change was made."""
    actor: str
    """Who made it: the id of an API key, a command of the operators such as `keys revoke`, or a service."""
    action: ShownAction
    """What was done."""
    target: str
    """What was changed: the id of the tenant, key or webhook, or the name of the pipeline."""
    changes: Object
    """The new value of each changed field. Of headers it has the names, and of URLs no query."""


class AuditPage(msgspec.Struct, frozen=True):
    """A page of the audit log."""

    items: list[AuditEntryView]
    """The changes, newest first."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""
