"""Names the errors of obstore. Its classes tell little, so status and code are read from its messages."""

import errno
import re

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from common.errors import CharoniaError, StoreDenied, StoreFull, StoreNotFound, StoreRangeInvalid, StoreUnavailable

OBSTORE_ERRORS = (BaseError, OSError, ValueError)
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
# The answers of a store that works, to a client that is configured wrongly.
_WRONG_SETTING = {
    "AccessDenied",
    "AuthorizationHeaderMalformed",
    "InvalidBucketName",
    "NoSuchBucket",
    "PermanentRedirect",
}
_WRONG_REGION = "redirect without LOCATION"  # to a HEAD, S3 names neither a code nor the region
_DENIED_STATUS = {301, 401, 403}
_DENIED_ERRORS = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL_STATUS = 507
_FULL_ERRORS = {errno.ENOSPC, errno.EDQUOT}
_RANGE_STATUS = 416
_RANGE_TEXT = ("Requested range was invalid", "Invalid range")
_NO_CREDENTIALS = ("169.254.", "token request", "credentials")
_MAX_TEXT = 300


def name_error(error: Exception, advice: str) -> CharoniaError:
    """Return the error by name. `advice` says which settings to check."""
    text = str(error).partition("\n\nDebug source")[0]
    status, system = _find_number(_STATUS, text), _find_number(_OS_ERROR, text)
    code = found[1] if (found := _CODE.search(text)) else ""
    summary = " ".join(text.partition("<?xml")[0].split())[:_MAX_TEXT]
    denied = isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in _DENIED_STATUS
    elsewhere = _WRONG_REGION in text
    if denied or elsewhere or code in _WRONG_SETTING or system in _DENIED_ERRORS:
        reason = " (the bucket is in another region)" if elsewhere else f" ({code})" if code else ""
        return StoreDenied(f"The object store denies access{reason}. Check {advice}. It said: {summary}")
    if system in _FULL_ERRORS or status == _FULL_STATUS:
        return StoreFull(f"The object store is full. Make room or raise its quota. It said: {summary}")
    if isinstance(error, FileNotFoundError):
        return StoreNotFound(summary)
    if status == _RANGE_STATUS or any(known in text for known in _RANGE_TEXT):
        return StoreRangeInvalid(summary)
    hint = f" Check {advice}." if any(known in text for known in _NO_CREDENTIALS) else ""
    return StoreUnavailable(f"The object store does not answer.{hint} It said: {summary}")


def _find_number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(found[1]) if found else 0
