"""What a client says about a file that it uploads."""

import re
from collections.abc import Mapping

from services.gateway.files.digests import read_digest
from services.gateway.files.schemas import BINARY, MEDIA_TYPE
from services.gateway.files.uploads import Announced
from services.gateway.http.negotiation import FORM, refuse
from services.gateway.http.problems import FieldError, invalid


def read_announced(headers: Mapping[str, str], digest: str | None, sha256: str | None, kept: float) -> Announced:
    """Return what headers and parameters say. Raises Problem (415, 422)."""
    length = headers.get("content-length", "")
    size = int(length) if length.isascii() and length.isdigit() else None
    return Announced(read_content_type(headers), size, read_digest(digest, sha256), kept)


def check_encodings(headers: Mapping[str, str]) -> None:
    """Raise Problem (415) for an encoded body."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise refuse(f"the body's Content-Encoding is '{encoding[:100]}'; send it without an encoding")
    transfer = headers.get("transfer-encoding", "chunked").strip().lower()
    if transfer != "chunked":  # the server undoes no other coding
        raise refuse(f"the body's Transfer-Encoding is '{transfer[:100]}'; send it as it is, or in chunks")


def read_content_type(headers: Mapping[str, str]) -> str:
    """Return the type of a file. Raises Problem (415) for a form or an encoded body, 422 for no media type."""
    check_encodings(headers)
    text = headers.get("content-type", "").strip()
    if text.lower().startswith("multipart/"):
        raise refuse("the body is a form; send the bytes of the file alone, as curl --data-binary @FILE does")
    if not text or text.lower() == FORM:  # curl's default
        return BINARY
    check_media_type("Content-Type", text)
    return text


def check_media_type(pointer: str, text: str) -> None:
    """Raise Problem (422) for no media type."""
    if not re.fullmatch(MEDIA_TYPE, text):
        raise invalid(FieldError(pointer, "must be a media type such as image/png"))
