"""The SHA-256 that a client says its file has: `Content-Digest` (RFC 9530), or the parameter `sha256`. Pure."""

import base64
import binascii
import re

from services.gateway.http.problems import FieldError, invalid

CONTENT_DIGEST = "Content-Digest"
SHA256 = re.compile(r"(?:^|,)\s*sha-256\s*=\s*:([A-Za-z0-9+/=]{1,64}):", re.IGNORECASE)
HEXADECIMAL = re.compile(r"[0-9a-fA-F]{64}")
EXPLAIN_HEADER = "must have the SHA-256 in base64, as sha-256=:…:, and may have others"


def read_digest(header: str | None, parameter: str | None) -> bytes | None:
    """Return the digest; None without one. Raises Problem (422) for none of SHA-256, or two that differ."""
    found = set()
    if parameter is not None:
        if not HEXADECIMAL.fullmatch(parameter):
            raise invalid(FieldError("sha256", "must be the SHA-256 in 64 hexadecimal digits"))
        found.add(bytes.fromhex(parameter))
    if header is not None:
        found.add(read_header(header))
    if len(found) > 1:
        raise invalid(FieldError("sha256", f"differs from the header {CONTENT_DIGEST}"))
    return found.pop() if found else None


def read_header(header: str) -> bytes:
    """Return the SHA-256 in a Content-Digest. Raises Problem (422)."""
    match = SHA256.search(header)
    try:
        digest = base64.b64decode(match.group(1), validate=True) if match else b""
    except binascii.Error:
        digest = b""
    if len(digest) != 32:
        raise invalid(FieldError(CONTENT_DIGEST, EXPLAIN_HEADER))
    return digest
