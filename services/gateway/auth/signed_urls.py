"""Signed URLs, which need no API key."""

import time
from uuid import UUID

from common.security.signed_urls import UrlSigner
from services.gateway.http.problems import forbidden


def check_signed_url(
    signer: UrlSigner, owner: UUID, what: str, expires: int, signature: str, job: UUID | None = None
) -> None:
    """Raise Problem (403) unless the URL of a job or file was signed for it and has not expired. `what` names it."""
    if not signer.is_valid(owner, expires, signature, job):
        raise forbidden("the URL's signature is wrong; use the URL exactly as it was sent")
    if expires < time.time():
        raise forbidden(f"the URL has expired; get the {what} with your API key")
