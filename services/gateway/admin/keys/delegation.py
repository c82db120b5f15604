"""What a key may give to a new one: never more than it has. Pure."""

from collections.abc import Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from services.gateway.auth.model_permissions import MAX_SHOWN, Allowed
from services.gateway.http.problems import forbidden

WILDCARDS = frozenset("*?[")


def grant_models(own: Allowed, wanted: Sequence[str] | None) -> list[str] | None:
    """Return the models of a new key: those of the calling key if none are wanted. Raises Problem (403)."""
    if own is None:
        return None if wanted is None else list(wanted)
    for pattern in wanted or ():
        if not any(covers(each, pattern) for each in own):
            shown = ", ".join(f"'{each}'" for each in own[:MAX_SHOWN])
            raise forbidden(f"a key cannot give more models than it has: '{pattern}' is not within {shown}")
    return list(own if wanted is None else wanted)


def covers(own: str, wanted: str) -> bool:
    """Return whether a pattern is sure to match every model that another one matches.

    A text with `*` or `?` is only compared with patterns whose sole wildcard is `*`: nothing else matches as much.
    """
    if own == wanted:
        return True
    if "[" in wanted:
        return own == "*"
    is_name = WILDCARDS.isdisjoint(wanted)
    return (is_name or WILDCARDS.isdisjoint(own.replace("*", ""))) and fnmatchcase(wanted, own)


def grant_rate(own: int | None, wanted: int | None, default: int) -> int | None:
    """Return the rate limit of a new key. 0 is no limit, and None the gateway's default. Raises Problem (403)."""
    if wanted is None:
        return own
    limit = default if own is None else own
    if limit and not 1 <= wanted <= limit:
        raise forbidden(f"a key cannot give a higher rate limit than it has: {limit} requests a second")
    return wanted


def grant_expiry(own: datetime | None, wanted: datetime | None) -> datetime | None:
    """Return when a new key expires: with the calling key if no time is wanted. Raises Problem (403)."""
    if own is not None and wanted is not None and wanted > own:
        raise forbidden("a key cannot give a later expires_at than it has")
    return own if wanted is None else wanted
