"""Signatures of webhooks: Standard Webhooks 1.0.0. Pure.

A secret is its whole text: `whsec_` + base64 of 32 bytes signs with HMAC-SHA256 (v1), `whsk_` + base64 of an
ed25519 seed and its public key signs with ed25519 (v1a).
"""

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HMAC, PRIVATE, PUBLIC = "whsec_", "whsk_", "whpk_"
SEED_BYTES = 32


def new_secret(kind: Literal["hmac", "ed25519"]) -> str:
    seed = os.urandom(SEED_BYTES)
    if kind == "hmac":
        return HMAC + b64encode(seed).decode()
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return PRIVATE + b64encode(seed + public).decode()


def public_key(secret: str) -> str:
    """The `whpk_…` that receivers verify with; raises ValueError for a secret that is not `whsk_…`."""
    return PUBLIC + b64encode(read_key(secret, PRIVATE)[SEED_BYTES:]).decode()


def sign(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: one signature for each secret, for receivers that know only one of them.

    `timestamp` is in unix seconds; raises ValueError for text that is no secret.
    """
    content = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(sign_once(secret, content) for secret in secrets)


def sign_once(secret: str, content: bytes) -> str:
    if secret.startswith(HMAC):
        signature = hmac.digest(read_key(secret, HMAC), content, hashlib.sha256)
        return f"v1,{b64encode(signature).decode()}"
    seed = read_key(secret, PRIVATE)[:SEED_BYTES]
    return f"v1a,{b64encode(Ed25519PrivateKey.from_private_bytes(seed).sign(content)).decode()}"


def read_key(secret: str, prefix: str) -> bytes:
    if not secret.startswith(prefix):
        raise ValueError(f"not a secret of the form {prefix}…")  # the text itself must not end up in a log
    return b64decode(secret.removeprefix(prefix), validate=True)
