"""Request and response bodies of keys. Unknown request fields are refused."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from common.views.job import Time
from services.gateway.auth.rate_limits import MAX_RATE
from services.gateway.auth.scopes import Scope

# Letters and marks of any language, but no control character.
NO_CONTROLS = r"^[^\x00-\x1f\x7f]*$(?!\n)"  # a `$` alone lets a line break pass at the end
KeyName = Annotated[str, Meta(min_length=1, max_length=100, pattern=NO_CONTROLS)]
ModelPattern = Annotated[str, Meta(min_length=1, max_length=255, pattern=NO_CONTROLS)]
RateLimit = Annotated[int, Meta(ge=0, le=MAX_RATE)]


class CreateKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to make. It cannot have more than the key that makes it."""

    name: KeyName
    """What the key is for."""
    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=len(Scope))]
    """What the key may do. `admin` includes the other two."""
    models: Annotated[list[ModelPattern], Meta(min_length=1, max_length=100)] | None = None
    """Which models the key may run: names, or patterns such as `ocr*`. By default those of the calling key.

    A pattern matches the whole name, and case counts. `*` stands for any characters, or none, and `?` for one. `[abc]`
    or `[a-c]` stands for one of these, and `[!abc]` for one of the others.
    """
    rate_limit: RateLimit | None = None
    """How many requests a second the key may make; 0 for any number. By default that of the calling key."""
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None
    """From when on the key is refused. By default it expires with the calling key."""


class KeyView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key."""

    id: str
    """The id of the key. It is no secret."""
    name: str
    """What the key is for."""
    scopes: list[Scope]
    """What the key may do."""
    models: list[str] | None
    """Which models the key may run, as names and patterns; null for every model."""
    rate_limit: int | None
    """How many requests a second the key may make; 0 for any number, null for the gateway's default."""
    created_at: Time
    """When the key was made."""
    expires_at: Time | None
    """From when on the key is refused; null for never."""
    last_used_at: Time | None
    """When the key was last used, to the minute; null before its first use."""
    made_by: str | None
    """The key that made it, whose rate limit it shares, and with which it is revoked. Null if an operator made it."""
    key: str | msgspec.UnsetType = msgspec.UNSET
    """The key itself. Only the answer to the call that makes it has it."""


class KeyPage(msgspec.Struct, frozen=True):
    """A page of keys."""

    items: list[KeyView]
    """The keys, oldest first. Revoked ones are left out."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last one."""
