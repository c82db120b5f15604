"""How many files and bytes a tenant may have. Pure."""

from http import HTTPStatus
from typing import NamedTuple

from services.gateway.http.problems import Problem

RETRY_SECONDS = 60


class Usage(NamedTuple):
    """What a tenant has, uploads included. The bytes are also those of its jobs' inputs and outputs."""

    files: int
    size: int


class Quota(NamedTuple):
    """What a tenant may have."""

    files: int
    size: int


def check_quota(quota: Quota, usage: Usage, size: int) -> None:
    """Raise Problem if there is no room for a file of `size` bytes: 413 if it never fits, 429 if it may later."""
    if size > quota.size:
        text = f"the file exceeds all that your files may have, {quota.size} bytes (CHARONIA_MAX_STORED_BYTES)"
        raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", text)
    if usage.size + size > quota.size:
        raise exceeded(
            f"your files and jobs have {usage.size} bytes, and may have {quota.size} (CHARONIA_MAX_STORED_BYTES)"
        )
    if usage.files >= quota.files:
        raise exceeded(f"you have {usage.files} files, and may have {quota.files} (CHARONIA_MAX_FILES)")


def exceeded(text: str) -> Problem:
    text = f"{text}; delete files, erase ended jobs, or wait until they expire"
    headers = {"Retry-After": str(RETRY_SECONDS)}
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, "quota_exceeded", text, headers=headers)
